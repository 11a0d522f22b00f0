//! Code reviews of a sample repository with seeded defects.

use crate::support::Place;
use lathe_engine::review::{
    ReviewError, ReviewRequest, ReviewTarget, TargetError, check_fixes, report, review,
};
use lathe_scripted::{RecordedRequest, Reply, Scenario};
use lathe_tools::report_findings::{Level, Outcome, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// Files of the sample, and seeded defects in each.
const FILES: usize = 8;
const DEFECTS_EACH: usize = 4;

fn git(folder: &Path, arguments: &[&str]) {
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A file before and after the change; the change adds defects, one decoy and harmless lines.
fn file(number: usize) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    for block in 0..DEFECTS_EACH * 3 {
        for line in 0..9 {
            let text = format!("let value_{block}_{line} = old({line});\n");
            before.push_str(&text);
            after.push_str(&text);
        }
        let id = number * DEFECTS_EACH + block / 3;
        match block % 3 {
            0 => {
                let _ = writeln!(after, "let wrong_{block} = list[len]; // DEFECT-{id}");
            }
            1 if block == 1 => {
                let _ = writeln!(after, "let fine_{block} = list[0]; // DECOY-{id}");
            }
            _ => {
                let _ = writeln!(after, "let other_{block} = new({id});");
            }
        }
    }
    (before, after)
}

/// The places of the seeded defects, as the files have them.
fn seeded(folder: &Path) -> BTreeSet<(String, u32, usize)> {
    let mut all = BTreeSet::new();
    for number in 0..FILES {
        let name = format!("src/part_{number}.rs");
        let text = std::fs::read_to_string(folder.join(&name)).unwrap();
        for (line, number) in text.lines().zip(1..) {
            if let Some(id) = line.split("DEFECT-").nth(1) {
                all.insert((name.clone(), number, id.trim().parse().unwrap()));
            }
        }
    }
    all
}

fn prompt_of(request: &RecordedRequest) -> String {
    let first = &request.messages()[0]["content"];
    match first.as_str() {
        Some(text) => text.to_owned(),
        None => first[0]["text"].as_str().unwrap().to_owned(),
    }
}

/// The findings of a finder: of the defects and decoys that it is shown, those that its aspect leads it to. Many are seen
/// by two.
fn found(prompt: &str) -> Vec<Value> {
    let mut findings = Vec::new();
    let mut file = String::new();
    for line in prompt.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            file = name.trim_end_matches(" (continued)").to_owned();
        }
        let Some((number, text)) = line.split_once(" + ") else {
            continue;
        };
        let Ok(number) = number.trim().parse::<u32>() else {
            continue;
        };
        for (mark, category) in [("DEFECT-", "correctness"), ("DECOY-", "security")] {
            let Some(id) = text.split(mark).nth(1) else {
                continue;
            };
            let number_of_it: usize = id.trim().parse().unwrap();
            let sees = if prompt.starts_with("Look at correctness") {
                number_of_it.is_multiple_of(2)
            } else if prompt.starts_with("Look at safety") {
                number_of_it % 2 == 1
            } else {
                !(20..900).contains(&number_of_it)
            };
            if sees {
                findings.push(json!({
                    "file": file, "line": number, "category": category,
                    "summary": format!("{mark}{id}: the index is beyond the end of the list"),
                    "failure_scenario": "a list with n elements: the access panics",
                }));
            }
        }
    }
    findings
}

/// The model of finders, verifiers and the one who fixes.
fn reviewer() -> Scenario {
    Scenario::new().responder(|request| {
        if !request.last_results().is_empty() {
            return Reply::text("done");
        }
        let system = request.body["system"].to_string();
        let prompt = prompt_of(request);
        if system.contains("You review a change") {
            return Reply::tool_use("ReportFindings", json!({"findings": found(&prompt)}));
        }
        if system.contains("try to refute it") {
            let told = prompt.split("The finding:\n").nth(1).unwrap();
            let mut values = serde_json::Deserializer::from_str(told).into_iter::<Value>();
            let mut finding = values.next().unwrap().unwrap();
            let summary = finding["summary"].as_str().unwrap().to_owned();
            let id: usize = summary.split(['-', ':']).nth(1).unwrap().parse().unwrap();
            let is_there = prompt.contains(&format!("// DEFECT-{id}\n"));
            if summary.starts_with("DECOY") || !is_there {
                return Reply::tool_use("ReportFindings", json!({"findings": []}));
            }
            finding["verdict"] = if id.is_multiple_of(5) {
                "PLAUSIBLE"
            } else {
                "CONFIRMED"
            }
            .into();
            return Reply::tool_use("ReportFindings", json!({"findings": [finding]}));
        }
        // Fixes every defect of the first file.
        let fix = "sed -i 's/list\\[len\\]; .. DEFECT-[0-9]*/list[len - 1];/' src/part_0.rs";
        Reply::tool_use("Bash", json!({"command": fix}))
    })
}

/// The schema of SARIF 2.1.0, from a package that `scripts/setup-tests` installs.
fn sarif_schema() -> lathe_schema::Schema {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("target/test-packages/sarif/sarif-2.1.0.json");
    let text = std::fs::read(file).expect("run scripts/setup-tests");
    lathe_schema::Schema::new(serde_json::from_slice(&text).unwrap()).unwrap()
}

async fn sample(scenario: Scenario) -> Place {
    let place = Place::new(scenario).await;
    let project = place.project();
    std::fs::create_dir(project.join("src")).unwrap();
    git(&project, &["init", "--quiet", "-b", "main"]);
    for number in 0..FILES {
        std::fs::write(
            project.join(format!("src/part_{number}.rs")),
            file(number).0,
        )
        .unwrap();
    }
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "--quiet", "-m", "before"]);
    for number in 0..FILES {
        std::fs::write(
            project.join(format!("src/part_{number}.rs")),
            file(number).1,
        )
        .unwrap();
    }
    place
}

fn request(target: ReviewTarget) -> ReviewRequest {
    ReviewRequest {
        target,
        paths: Vec::new(),
        level: Level::Medium,
        max_findings: 32,
    }
}

#[tokio::test]
async fn every_seeded_defect_is_found_once_on_its_line_and_decoys_are_refuted() {
    let place = sample(reviewer()).await;
    let seeded = seeded(&place.project());
    assert_eq!(seeded.len(), FILES * DEFECTS_EACH);
    let talk = place.open_with(place.trusting_options()).await;
    let cancel = CancellationToken::new();
    let found = review(&talk.session, &request(ReviewTarget::Uncommitted), &cancel)
        .await
        .unwrap();
    let places: BTreeSet<(String, u32, usize)> = found
        .findings
        .iter()
        .map(|finding| {
            let id = finding
                .summary
                .split(['-', ':'])
                .nth(1)
                .unwrap()
                .parse()
                .unwrap();
            (finding.file.clone(), finding.line.unwrap(), id)
        })
        .collect();
    assert_eq!(places, seeded, "{:?}", found.remarks);
    assert_eq!(
        found.findings.len(),
        seeded.len(),
        "what two finders saw is reported once"
    );
    assert_eq!(found.refuted, FILES, "one decoy a file");
    assert_eq!(found.files, FILES);
    // Confirmed ones come first.
    let plausible = found
        .findings
        .iter()
        .position(|it| it.verdict == Some(Verdict::Plausible));
    let rest = &found.findings[plausible.unwrap()..];
    assert!(rest.iter().all(|it| it.verdict == Some(Verdict::Plausible)));
    // Reviewers read and report, and nothing else.
    for request in place.server.message_requests() {
        let tools = request.body["tools"].as_array().unwrap();
        let names: BTreeSet<&str> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            BTreeSet::from(["Glob", "Grep", "Read", "ReportFindings"])
        );
    }
    assert!(talk.session.history().totals().cost_usd() > 0.0);
    let sarif = report::sarif(&found);
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 32);
    let schema = sarif_schema();
    assert_eq!(schema.problems(&sarif), Vec::<String>::new());
    let mut broken = sarif;
    broken["runs"][0]["results"][0]["level"] = "fatal".into();
    assert!(
        !schema.problems(&broken).is_empty(),
        "the schema checks something"
    );
    assert!(report::text(&found).contains("32 findings in 8 files"));
    talk.finish().await;
}

#[tokio::test]
async fn a_review_covers_what_it_is_asked_to() {
    let place = sample(reviewer()).await;
    let project = place.project();
    let talk = place.open_with(place.trusting_options()).await;
    let cancel = CancellationToken::new();
    let files = async |target: ReviewTarget, paths: &[&str]| {
        let request = ReviewRequest {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            level: Level::Low,
            ..request(target)
        };
        review(&talk.session, &request, &cancel).await.map(|it| {
            let files: BTreeSet<String> = it.findings.iter().map(|it| it.file.clone()).collect();
            files.into_iter().collect::<Vec<String>>()
        })
    };
    let only = files(ReviewTarget::Changes, &["src/part_3.rs"])
        .await
        .unwrap();
    assert_eq!(only, ["src/part_3.rs"]);
    std::fs::write(project.join("new.rs"), "let x = list[len]; // DEFECT-900\n").unwrap();
    let untracked = files(ReviewTarget::Uncommitted, &["new.rs"]).await.unwrap();
    assert_eq!(untracked, ["new.rs"]);
    git(&project, &["checkout", "--quiet", "-b", "work"]);
    git(&project, &["add", "new.rs"]);
    git(&project, &["commit", "--quiet", "-m", "new"]);
    git(&project, &["stash", "--quiet"]);
    assert_eq!(
        files(ReviewTarget::Base("main".to_owned()), &[])
            .await
            .unwrap(),
        ["new.rs"]
    );
    assert_eq!(
        files(ReviewTarget::Changes, &[]).await.unwrap(),
        ["new.rs"],
        "since main"
    );
    assert_eq!(
        files(ReviewTarget::Commit("HEAD".to_owned()), &[])
            .await
            .unwrap(),
        ["new.rs"]
    );
    // A commit without a parent, and files that did not change.
    assert!(
        files(ReviewTarget::Commit("HEAD~1".to_owned()), &[])
            .await
            .unwrap()
            .is_empty()
    );
    git(&project, &["checkout", "--quiet", "main"]);
    git(&project, &["merge", "--quiet", "work"]);
    assert_eq!(
        files(ReviewTarget::Changes, &["new.rs"]).await.unwrap(),
        ["new.rs"],
        "as it is"
    );
    let nothing = files(ReviewTarget::Changes, &[]).await.unwrap_err();
    assert!(
        matches!(nothing, ReviewError::Target(TargetError::Nothing(_))),
        "{nothing}"
    );
    for wrong in ["--output=/tmp/x", "no-such-branch"] {
        let error = files(ReviewTarget::Base(wrong.to_owned()), &[])
            .await
            .unwrap_err();
        assert!(
            matches!(error, ReviewError::Target(TargetError::Git(_))),
            "{error}"
        );
    }
    talk.finish().await;
}

#[tokio::test]
async fn fixes_are_checked_again() {
    let place = sample(reviewer()).await;
    let mut talk = place.open_with(place.trusting_options()).await;
    let cancel = CancellationToken::new();
    let asked = ReviewRequest {
        paths: vec!["src/part_0.rs".to_owned(), "src/part_1.rs".to_owned()],
        ..request(ReviewTarget::Uncommitted)
    };
    let mut found = review(&talk.session, &asked, &cancel).await.unwrap();
    let before = found.files_now();
    talk.say(&found.fix_prompt()).await;
    check_fixes(&talk.session, &mut found, &before, &cancel)
        .await
        .unwrap();
    for finding in &found.findings {
        let expected = if finding.file == "src/part_0.rs" {
            Outcome::Fixed
        } else {
            Outcome::Skipped
        };
        assert_eq!(finding.outcome, Some(expected), "{}", finding.place());
    }
    talk.finish().await;
}

#[tokio::test]
async fn finders_that_fail_are_said_and_a_hostile_report_stays_in_the_repository() {
    let scenario = Scenario::new().responder(|request| {
        if !request.last_results().is_empty() {
            return Reply::text("done");
        }
        let prompt = prompt_of(request);
        if prompt.starts_with("Look at safety") {
            return Reply::error(400);
        }
        let finding = |file: &str, line: u32| {
            json!({"file": file, "line": line, "summary": format!("at {file}"), "failure_scenario": "x"})
        };
        let all = [
            finding("/etc/passwd", 1),
            finding("../outside.rs", 1),
            finding("missing.rs", 1),
            finding("./src/part_0.rs", 4_000_000),
        ];
        let one = [finding("src/part_0.rs", 4_000_000)];
        let verifies = request.body["system"].to_string().contains("try to refute it");
        let given = if verifies { &one[..] } else { &all[..] };
        Reply::tool_use("ReportFindings", json!({"findings": given}))
    });
    let place = sample(scenario).await;
    let talk = place.open_with(place.trusting_options()).await;
    let cancel = CancellationToken::new();
    let found = review(&talk.session, &request(ReviewTarget::Changes), &cancel)
        .await
        .unwrap();
    let files: Vec<&str> = found.findings.iter().map(|it| it.file.as_str()).collect();
    assert_eq!(files, ["src/part_0.rs"]);
    let remarks = found.remarks.join("\n");
    assert!(remarks.contains("1 of 3 finders failed"), "{remarks}");
    assert!(remarks.contains("files that don't exist"), "{remarks}");
    talk.finish().await;
    // In a folder that nobody trusts, git isn't run.
    let talk = place.open().await;
    let refused = review(&talk.session, &request(ReviewTarget::Changes), &cancel).await;
    assert!(matches!(refused, Err(ReviewError::NotTrusted(_))));
    talk.finish().await;
}

#[tokio::test]
async fn a_review_beside_the_conversation_reports_to_it() {
    let place = sample(reviewer()).await;
    let mut options = place.trusting_options();
    options.schedule.fires = true;
    let mut talk = place.open_with(options).await;
    let asked = ReviewRequest {
        paths: vec!["src/part_2.rs".to_owned()],
        ..request(ReviewTarget::Changes)
    };
    lathe_engine::review::start(&talk.session, asked, false);
    talk.result().await;
    let last = place.server.message_requests();
    let told = last
        .iter()
        .find(|it| prompt_of(it).contains("has ended"))
        .unwrap();
    assert!(
        prompt_of(told).contains("src/part_2.rs:"),
        "{}",
        prompt_of(told)
    );
    talk.finish().await;
}
