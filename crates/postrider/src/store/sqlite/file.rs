//! The database file itself: who may read it, and whether it is still the one that was opened.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Obstacle, Result};

/// Creates the file and its folder if they do not exist. Payloads and hashes of tokens are in it, so that only its owner may
/// read it; SQLite gives the log beside the file the same rights.
pub(super) fn create(file: &Path) -> io::Result<()> {
    let (mut folders, mut options) = (DirBuilder::new(), OpenOptions::new());
    folders.recursive(true);
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        folders.mode(0o700);
        options.mode(0o600);
    }
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        folders.create(folder)?;
    }
    match options.open(file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The file that was opened. SQLite goes on with a file that was removed or replaced: its commits succeed, and what they wrote is
/// lost when the last connection ends.
#[derive(Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    id: FileId,
}

impl OpenFile {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        Ok(Self { id: identify(&path)?, path })
    }

    /// Refuses to write if another file, or none, is at the path. It takes about a microsecond.
    pub(super) fn check(&self) -> Result<()> {
        match identify(&self.path) {
            Ok(id) if id == self.id => Ok(()),
            Ok(_) => Err(Error::obstructed(Obstacle::Replaced, None)),
            Err(error) => Err(Error::obstructed(Obstacle::Replaced, Some(error.into()))),
        }
    }
}

#[cfg(unix)]
type FileId = (u64, u64);

/// Device and number of the file at a path.
#[cfg(unix)]
fn identify(path: &Path) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
type FileId = ();

/// An open file cannot be removed here.
#[cfg(not(unix))]
fn identify(path: &Path) -> io::Result<FileId> {
    std::fs::metadata(path).map(drop)
}
