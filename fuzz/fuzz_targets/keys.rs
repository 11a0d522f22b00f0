#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_tui::fuzzing::fuzz_keys(bytes));
