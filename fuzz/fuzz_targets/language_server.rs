#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_lsp::fuzzing::fuzz_language_server(bytes));
