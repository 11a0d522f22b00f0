#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_proxy::fuzzing::fuzz_proxy_request(bytes));
