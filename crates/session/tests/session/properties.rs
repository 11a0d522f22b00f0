//! Any prefix of any session, cut at any byte, gives a request that the API accepts.

use crate::api_rules::check;
use crate::support::{MODEL, Script, assistant, call, line, text, thinking};
use lathe_protocol::Extra;
use lathe_protocol::content::{Content, ContentBlock, RedactedThinkingBlock, ToolUseBlock};
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::{AssistantMessage, Message};
use lathe_protocol::record::{Fact, Record, RecordKind};
use lathe_session::{History, load, load_tail};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::sync::Arc;

const MODELS: [&str; 3] = [MODEL, "model-b", "<synthetic>"];
/// Few, so that they repeat; some that the API would refuse.
const IDS: [&str; 6] = ["t1", "t2", "t3", "functions.Read:0", "", "t1_2"];

/// Something that can happen to a session.
#[derive(Debug, Clone)]
enum Step {
    Prompt(&'static str),
    PromptBlocks(Vec<Part>),
    Meta,
    Virtual,
    Assistant {
        message: u8,
        model: u8,
        parts: Vec<Part>,
    },
    PlainAssistant,
    Results(Vec<(u8, Outcome)>),
    Attachment {
        linked: bool,
    },
    Progress,
    System,
    Boundary,
    ApiError,
    Sidechain,
    Rewind(Index),
    BranchFrom(Index),
    LostParent,
    OwnParent,
    Replacement(u8),
    UnknownKind,
    Misfit,
    Garbage(Vec<u8>),
    TornGlued,
    Twice,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Text,
    Blank,
    Thinking,
    Unsigned,
    Redacted,
    Call(u8),
    OddCall,
    ServerCall(u8),
    ServerResult(u8),
    Result(u8),
    Image,
    LostImage,
    NewKind,
    Marked,
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Fine,
    Blank,
    Nothing,
    Failed,
    FailedBlank,
    FailedPicture,
    Nested,
}

/// How many cases to try: few in everyday runs, as many as `PROPTEST_CASES` says in a long one.
fn cases(everyday: u32) -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(everyday)
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => Just(Part::Text),
        1 => Just(Part::Blank),
        3 => Just(Part::Thinking),
        1 => Just(Part::Unsigned),
        1 => Just(Part::Redacted),
        6 => (0..6_u8).prop_map(Part::Call),
        1 => Just(Part::OddCall),
        1 => (0..2_u8).prop_map(Part::ServerCall),
        1 => (0..2_u8).prop_map(Part::ServerResult),
        1 => (0..6_u8).prop_map(Part::Result),
        1 => Just(Part::Image),
        1 => Just(Part::LostImage),
        1 => Just(Part::NewKind),
        1 => Just(Part::Marked),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Fine),
        1 => Just(Outcome::Blank),
        1 => Just(Outcome::Nothing),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::FailedBlank),
        1 => Just(Outcome::FailedPicture),
        1 => Just(Outcome::Nested),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let parts = || prop::collection::vec(part(), 0..4);
    prop_oneof![
        4 => prop::sample::select(vec!["hello", "", "  ", "a \"quoted\"\nline", "ünï ✂"]).prop_map(Step::Prompt),
        1 => parts().prop_map(Step::PromptBlocks),
        1 => Just(Step::Meta),
        1 => Just(Step::Virtual),
        10 => (0..4_u8, 0..3_u8, parts())
            .prop_map(|(message, model, parts)| Step::Assistant { message, model, parts }),
        1 => Just(Step::PlainAssistant),
        8 => prop::collection::vec((0..6_u8, outcome()), 1..4).prop_map(Step::Results),
        1 => any::<bool>().prop_map(|linked| Step::Attachment { linked }),
        1 => Just(Step::Progress),
        1 => Just(Step::System),
        1 => Just(Step::Boundary),
        1 => Just(Step::ApiError),
        1 => Just(Step::Sidechain),
        1 => any::<Index>().prop_map(Step::Rewind),
        1 => any::<Index>().prop_map(Step::BranchFrom),
        1 => Just(Step::LostParent),
        1 => Just(Step::OwnParent),
        1 => (0..6_u8).prop_map(Step::Replacement),
        1 => Just(Step::UnknownKind),
        1 => Just(Step::Misfit),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Step::Garbage),
        1 => Just(Step::TornGlued),
        1 => Just(Step::Twice),
    ]
}

fn block(part: Part, model: &str) -> ContentBlock {
    let id = |at: u8| IDS[usize::from(at) % IDS.len()];
    match part {
        Part::Text => text("words"),
        Part::Blank => text(" \n"),
        Part::Thinking => thinking(model),
        Part::Unsigned => {
            serde_json::from_value(json!({"type": "thinking", "thinking": "?"})).unwrap()
        }
        Part::Redacted => ContentBlock::RedactedThinking(RedactedThinkingBlock {
            data: format!("secret of {model}"),
            extra: Extra::new(),
        }),
        Part::Call(at) => call(id(at)),
        Part::OddCall => ContentBlock::ToolUse(ToolUseBlock {
            id: "odd".into(),
            name: "no such/tool".into(),
            input: json!("not an object"),
            extra: Extra::new(),
        }),
        Part::ServerCall(at) => ContentBlock::Other(
            json!({"type": "server_tool_use", "id": format!("s{at}"), "name": "web_search", "input": {}}),
        ),
        Part::ServerResult(at) => ContentBlock::Other(
            json!({"type": "web_search_tool_result", "tool_use_id": format!("s{at}"), "content": []}),
        ),
        Part::Result(at) => result(at, Outcome::Fine),
        Part::Image => ContentBlock::image("image/png", "AAAA"),
        Part::LostImage => serde_json::from_value(
            json!({"type": "image", "source": {"type": "blob", "hash": "x"}}),
        )
        .unwrap(),
        Part::NewKind => ContentBlock::Other(json!({"type": "some_new_block", "x": 1})),
        Part::Marked => serde_json::from_value(
            json!({"type": "text", "text": "marked", "cache_control": {"type": "ephemeral"}}),
        )
        .unwrap(),
    }
}

fn result(at: u8, outcome: Outcome) -> ContentBlock {
    let id = IDS[usize::from(at) % IDS.len()].into();
    let picture = || ContentBlock::image("image/png", "AAAA");
    match outcome {
        Outcome::Fine => ContentBlock::tool_result(id, "fine", false),
        Outcome::Blank => ContentBlock::tool_result(id, vec![text(" ")], false),
        Outcome::Nothing => {
            serde_json::from_value(json!({"type": "tool_result", "tool_use_id": id})).unwrap()
        }
        Outcome::Failed => ContentBlock::tool_result(id, "failed", true),
        Outcome::FailedBlank => ContentBlock::tool_result(id, Content::Blocks(Vec::new()), true),
        Outcome::FailedPicture => ContentBlock::tool_result(id, vec![picture()], true),
        Outcome::Nested => {
            ContentBlock::tool_result(id, vec![picture(), call("inner"), text("x")], false)
        }
    }
}

/// The bytes of the session that these steps make.
fn session(steps: &[Step]) -> Vec<u8> {
    let mut script = Script::new();
    let mut bytes = Vec::new();
    let mut written = 0;
    for step in steps {
        let any_record = |script: &Script, index: &Index| {
            let ids: Vec<RecordId> = script.records.iter().filter_map(|it| it.uuid()).collect();
            (!ids.is_empty()).then(|| ids[index.index(ids.len())])
        };
        match step {
            Step::Prompt(words) => drop(script.prompt(words)),
            Step::PromptBlocks(parts) => {
                let blocks: Vec<ContentBlock> =
                    parts.iter().map(|part| block(*part, MODEL)).collect();
                script.push(script.template.user(script.parent, Message::user(blocks)));
            }
            Step::Meta => drop(script.meta("a reminder")),
            Step::Virtual => {
                let mut record = script
                    .template
                    .user(script.parent, Message::user("for the person"));
                record.is_virtual = true;
                script.push(record);
            }
            Step::Assistant {
                message,
                model,
                parts,
            } => {
                let model = MODELS[usize::from(*model)];
                let id = format!("msg_{message}");
                if parts.len() % 2 == 0 {
                    for part in parts {
                        script.says_as(model, &id, vec![block(*part, model)]);
                    }
                } else {
                    let blocks = parts.iter().map(|part| block(*part, model)).collect();
                    script.says_as(model, &id, blocks);
                }
            }
            Step::PlainAssistant => {
                let mut record = script.template.record(RecordKind::Assistant, script.parent);
                record.message = Some(lathe_protocol::record::RecordMessage::Plain(
                    Message::assistant("plain"),
                ));
                script.push(record);
            }
            Step::Results(results) => {
                let blocks: Vec<ContentBlock> = results
                    .iter()
                    .map(|(at, outcome)| result(*at, *outcome))
                    .collect();
                script.push(script.template.user(script.parent, Message::user(blocks)));
            }
            Step::Attachment { linked } => {
                let mut attachment = json!({"type": "x", "content": "attached"});
                if *linked {
                    attachment["toolUseId"] = json!("t1");
                }
                script.push(script.template.attachment(script.parent, attachment));
            }
            Step::Progress => drop(script.progress()),
            Step::System => {
                script.push(script.template.system(script.parent, "informational", None));
            }
            Step::Boundary => drop(script.boundary()),
            Step::ApiError => {
                let message = AssistantMessage::synthetic("API Error: 529");
                let mut record = script.template.assistant(script.parent, message);
                record.is_api_error_message = true;
                script.push(record);
            }
            Step::Sidechain => {
                let parent = script.parent;
                let mut record = script
                    .template
                    .assistant(parent, assistant(MODEL, "side", vec![call("side")]));
                record.is_sidechain = true;
                script.push(record);
                script.parent = parent;
            }
            Step::Rewind(index) => {
                let to = any_record(&script, index);
                script.fact(Fact::Rewound {
                    to,
                    session_id: script.id(),
                });
                script.parent = to;
            }
            Step::BranchFrom(index) => script.parent = any_record(&script, index),
            Step::LostParent => script.parent = Some(RecordId::random()),
            Step::OwnParent => {
                let mut record = script.template.user(None, Message::user("snake"));
                record.parent_uuid = Some(record.uuid);
                script.push(record);
            }
            Step::Replacement(at) => script.fact(Fact::Replacement {
                tool_use_id: IDS[usize::from(*at)].into(),
                replacement: "replaced".into(),
                session_id: script.id(),
            }),
            Step::UnknownKind => {
                script.records.push(Arc::new(Record::Other(
                    json!({"type": "queue-operation", "n": 1}),
                )));
            }
            Step::Misfit => {
                script.records.push(Arc::new(Record::Other(
                    json!({"type": "user", "message": 5}),
                )));
            }
            Step::Garbage(garbage) => {
                bytes.extend_from_slice(garbage);
                bytes.push(b'\n');
            }
            Step::TornGlued => bytes.extend_from_slice(br#"{"type":"user","message":{"role":"us"#),
            Step::Twice => script.records.extend(script.records.last().cloned()),
        }
        for record in &script.records[written..] {
            bytes.extend_from_slice(line(record).as_bytes());
        }
        written = script.records.len();
    }
    bytes
}

fn values(conversation: &mut History) -> Vec<Value> {
    conversation
        .request_messages()
        .iter()
        .map(|message| serde_json::from_slice(&message.bytes).expect("messages are JSON"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(150), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_prefix_of_any_session_gives_a_request_that_the_api_accepts(
        steps in prop::collection::vec(step(), 0..30),
        cuts in prop::collection::vec(any::<Index>(), 3),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("6f2a8c1e-0000-4000-8000-000000000001.jsonl");
        let bytes = session(&steps);
        let ends = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([bytes.len()]);
        for end in ends {
            std::fs::write(&path, &bytes[..end]).unwrap();
            let loaded = load(&path).unwrap();
            let chain = loaded.chain();
            let mut conversation = History::new(MODEL);
            // After every record of the whole session too: a request may be made at any time.
            for record in &chain {
                conversation.push(record);
                if end < bytes.len() {
                    continue;
                }
                let messages = values(&mut conversation);
                prop_assert_eq!(check(&messages, MODEL), Ok(()));
            }
            let step_by_step = values(&mut conversation);
            prop_assert_eq!(check(&step_by_step, MODEL), Ok(()));
            let mut at_once = History::new(MODEL);
            chain.iter().for_each(|record| at_once.push(record));
            prop_assert_eq!(&values(&mut at_once), &step_by_step);
            prop_assert_eq!(at_once.estimated_bytes(), conversation.estimated_bytes());
            conversation.set_model("model-b");
            let other = values(&mut conversation);
            prop_assert_eq!(check(&other, "model-b"), Ok(()));
            conversation.set_model(MODEL);
            prop_assert_eq!(&values(&mut conversation), &step_by_step);
            // None of this may fail or hang either.
            let _ = (loaded.interruption(), loaded.prompts(), loaded.history());
            prop_assert_eq!(load_tail(&path).unwrap().chain().len(), chain.len());
        }
    }
}

/// A step of a session that nothing went wrong in.
#[derive(Debug, Clone)]
enum Fine {
    Prompt,
    /// Calls, the order in which their results come in, and which result is replaced.
    Round {
        calls: usize,
        order: Vec<Index>,
        replaced: Option<Index>,
        thinks: bool,
        steered: bool,
    },
    Answer,
    Rewind(Index),
    Model(bool),
}

fn fine() -> impl Strategy<Value = Fine> {
    prop_oneof![
        2 => Just(Fine::Prompt),
        6 => (
            1..4_usize,
            prop::collection::vec(any::<Index>(), 4),
            prop::option::of(any::<Index>()),
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(|(calls, order, replaced, thinks, steered)| Fine::Round {
                calls, order, replaced, thinks, steered
            }),
        2 => Just(Fine::Answer),
        1 => any::<Index>().prop_map(Fine::Rewind),
        1 => any::<bool>().prop_map(Fine::Model),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(60), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_resumed_session_sends_the_bytes_that_the_live_one_would(
        steps in prop::collection::vec(fine(), 1..25),
    ) {
        let mut script = Script::new();
        let mut live = History::new(MODEL);
        let mut model = MODEL;
        let mut pushed = 0;
        let mut number = 0;
        script.prompt("start");
        for step in &steps {
            number += 1;
            match step {
                Fine::Prompt => drop(script.prompt(&format!("prompt {number}"))),
                Fine::Answer => drop(script.says_as(model, &format!("m{number}"), vec![text("done")])),
                Fine::Round { calls, order, replaced, thinks, steered } => {
                    let message = format!("m{number}");
                    if *thinks {
                        script.says_as(model, &message, vec![thinking(model)]);
                    }
                    let mut open: Vec<(String, RecordId)> = Vec::new();
                    for at in 0..*calls {
                        let id = format!("t{number}_{at}");
                        let record = script.says_as(model, &message, vec![call(&id)]);
                        open.push((id, record));
                    }
                    let ids: Vec<String> = open.iter().map(|(id, _)| id.clone()).collect();
                    for index in order {
                        if open.is_empty() { break; }
                        let (id, record) = open.remove(index.index(open.len()));
                        script.result_under(record, &id, &format!("result of {id}"));
                    }
                    if *steered {
                        script.prompt("by the way");
                    }
                    if let Some(index) = replaced {
                        script.fact(Fact::Replacement {
                            tool_use_id: ids[index.index(ids.len())].as_str().into(),
                            replacement: "see the file".into(),
                            session_id: script.id(),
                        });
                    }
                }
                Fine::Rewind(index) => {
                    let prompts: Vec<RecordId> = script
                        .records
                        .iter()
                        .filter_map(|record| match &**record {
                            Record::Message(it) if it.is_prompt() => it.parent_uuid,
                            _ => None,
                        })
                        // Only what is still part of the live conversation.
                        .filter(|id| live.record_ids().any(|known| known == *id))
                        .collect();
                    if !prompts.is_empty() {
                        let to = prompts[index.index(prompts.len())];
                        script.fact(Fact::Rewound { to: Some(to), session_id: script.id() });
                        script.parent = Some(to);
                    }
                }
                Fine::Model(first) => {
                    model = if *first { MODEL } else { "model-b" };
                    live.set_model(model);
                }
            }
            script.records[pushed..].iter().for_each(|record| live.push(record));
            pushed = script.records.len();
            let request = live.request_messages();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("6f2a8c1e-0000-4000-8000-000000000001.jsonl");
            script.write(&path);
            let mut resumed = History::new(model);
            load(&path).unwrap().chain().iter().for_each(|record| resumed.push(record));
            prop_assert_eq!(resumed.request_messages(), request);
        }
    }
}
