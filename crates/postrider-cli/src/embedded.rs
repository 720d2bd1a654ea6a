//! The web console that was built into the executable.

use postrider_server::Console;
use rust_embed::RustEmbed;

/// The files of `console/dist`, packed by the build script.
#[derive(RustEmbed)]
#[folder = "$OUT_DIR/console"]
struct Files;

/// The console; `None` if it was not built before the executable.
pub(crate) fn console() -> Option<Console> {
    Console::new(Files::iter().filter_map(|name| Some((name.to_string(), Files::get(&name)?.data))))
}
