#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_headless::fuzzing::fuzz_sdk_frames(bytes));
