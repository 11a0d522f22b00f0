//! The shell analyser keeps its promises for every text: no panic, bounded work, nothing milder when
//! wrapped. The same checks run over seeded texts in the ordinary tests.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/shell/tests/analysis_support/promises.rs"]
mod promises;

fuzz_target!(|text: &str| {
    for wrapper in 0..promises::WRAPPERS.len() {
        promises::keep(text, wrapper);
    }
});
