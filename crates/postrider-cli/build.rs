//! Packs the built console for `src/embedded.rs`. Without `console/dist` the executable has no console.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/dist");
    let packed = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("console");
    if packed.exists() {
        fs::remove_dir_all(&packed)?;
    }
    fs::create_dir_all(&packed)?;
    // Cargo runs this script at every build while a path that it watches is missing. Where the folder cannot be created, that
    // is the only consequence.
    let _ = fs::create_dir_all(&dist);
    println!("cargo::rerun-if-changed={}", dist.display());
    if dist.join("index.html").exists() { pack(&dist, &packed) } else { Ok(()) }
}

/// Writes every file of a folder to another, packed.
fn pack(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&to)?;
            pack(&from, &to)?;
        } else {
            let mut file = GzEncoder::new(File::create(to)?, Compression::best());
            file.write_all(&fs::read(from)?)?;
            file.finish()?;
        }
    }
    Ok(())
}
