#![no_main]

#[path = "../../crates/postrider/tests/it/fuzz/targets.rs"]
#[allow(dead_code)] // each program has one of them
mod targets;

libfuzzer_sys::fuzz_target!(|text: &str| {
    targets::cron(text);
});
