#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_web::fuzzing::fuzz_html(bytes));
