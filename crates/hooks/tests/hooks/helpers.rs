//! Helper commands: status line, key helper, file suggestions.

use crate::{Bench, is_alive, within};
use lathe_hooks::helper::HelperContext;
use lathe_hooks::{HelperError, run_helper};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn context<'a>(folder: &'a std::path::Path, limit: Duration) -> HelperContext<'a> {
    HelperContext {
        cwd: folder,
        environment: BTreeMap::from([("NAME".to_owned(), "value".to_owned())]),
        withheld: BTreeSet::from(["HELD_BACK".to_owned()]),
        project: Some(folder),
        limit,
        cancel: CancellationToken::new(),
    }
}

#[tokio::test]
async fn a_helper_gets_its_input_and_its_output_counts() {
    let folder = Bench::new(&json!({})).path();
    std::fs::create_dir_all(&folder).unwrap();
    let limit = Duration::from_secs(30);
    let said = within(run_helper(
        "cat; [ \"$LATHE_PROJECT_DIR\" = \"$PWD\" ] && echo \" $NAME\"; echo noise >&2",
        "given",
        context(&folder, limit),
    ))
    .await;
    assert_eq!(said.unwrap(), "given value");
}

#[tokio::test]
async fn a_helper_that_fails_hangs_or_is_cancelled_says_so() {
    let bench = Bench::new(&json!({}));
    let folder = bench.path();
    let limit = Duration::from_secs(30);
    let error = within(run_helper(
        "echo 'no key' >&2; exit 3",
        "",
        context(&folder, limit),
    ))
    .await
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the helper `echo 'no key' >&2; exit 3` failed with exit code 3: no key"
    );
    let error = within(run_helper("kill -9 $$", "", context(&folder, limit)))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("failed by a signal"), "{error}");
    let short = Duration::from_millis(200);
    let error = within(run_helper(
        "echo $$ > id; sleep 1000",
        "",
        context(&folder, short),
    ))
    .await
    .unwrap_err();
    assert!(matches!(error, HelperError::TimedOut { .. }), "{error}");
    assert!(!is_alive(
        &std::fs::read_to_string(folder.join("id")).unwrap()
    ));
    let cancelled = context(&folder, limit);
    cancelled.cancel.cancel();
    let error = within(run_helper("sleep 1000", "", cancelled))
        .await
        .unwrap_err();
    assert!(matches!(error, HelperError::Cancelled { .. }), "{error}");
    let gone = folder.join("gone");
    let error = within(run_helper("true", "", context(&gone, limit)))
        .await
        .unwrap_err();
    assert!(matches!(error, HelperError::Start { .. }), "{error}");
}
