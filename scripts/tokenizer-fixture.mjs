// Writes crates/model/tests/data/tokens.json: texts with the counts of two public tokenizers, for the test of
// our own estimate. Run it in a folder where both packages are installed (scripts/setup-tests does that):
//
//   cd target/test-packages/tokenizers
//   node ../../../scripts/tokenizer-fixture.mjs ../../.. > ../../../crates/model/tests/data/tokens.json
//
// With --count it reads such a file from standard input and writes it with the counts made anew; the test uses
// that to hold the file against the tokenizers themselves.
//
// The texts are parts of this repository and sentences written for the purpose.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "x.js"));
const { countTokens: byAnthropic } = require("@anthropic-ai/tokenizer");
const { countTokens: byGpt } = require("gpt-tokenizer/cjs/encoding/o200k_base");

const counted = (kind, text) => ({ kind, anthropic: byAnthropic(text), o200k: byGpt(text), text });
// All of it before the process ends, however long it is.
const write = (rows) => writeFileSync(1, JSON.stringify(rows, null, 1) + "\n");
if (process.argv[2] === "--count") {
  write(JSON.parse(readFileSync(0, "utf8")).map(({ kind, text }) => counted(kind, text)));
  process.exit(0);
}

const repository = process.argv[2] ?? ".";
const part = (file, from, length) =>
  readFileSync(join(repository, file), "utf8").slice(from, from + length);

const list = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const samples = {
  rust: [
    part("crates/model/src/estimate.rs", 0, 3000),
    part("crates/session/src/conversation/group.rs", 500, 3000),
    part("crates/tools/src/grep.rs", 2000, 3000),
  ],
  prose: [
    part("README.md", 0, 2500),
    part("docs/sessions.md", 0, 2500),
    part("docs/tools.md", 0, 2500),
  ],
  markup: [part("docs/permissions.md", 1000, 2500), part("docs/settings.md", 500, 2500)],
  json: [
    JSON.stringify({ items: list(30, (i) => ({ id: 1000 + i, name: `item-${i}`, tags: ["red", "large"], price: i * 1.25, stock: i % 3 === 0 })) }),
    JSON.stringify(list(12, (i) => ({ type: "tool_result", tool_use_id: `call_${i}`, content: `The file src/part_${i}.rs has ${i * 7} lines.`, is_error: false })), null, 2),
    part("crates/model/data/models.json", 0, 2500),
  ],
  toml: [part("Cargo.toml", 0, 2500)],
  shell: [
    list(40, (i) => `-rw-r--r-- 1 user group ${(i * 7919) % 90000} Nov ${1 + (i % 28)} 12:${10 + (i % 49)} source_file_${i}.txt`).join("\n"),
    list(30, (i) => `src/module_${i % 7}/file_${i}.rs:${i * 13}: let value = compute(${i}, "name");`).join("\n"),
    list(25, (i) => `test part_${i}::behaves_as_told ... ok (${i * 3} ms)`).join("\n"),
  ],
  python: [
    list(8, (i) => `def handler_${i}(request, limit=${i * 10}):\n    """Handle one request."""\n    if request.method != "POST":\n        raise ValueError(f"bad method {request.method!r}")\n    result = [row.value for row in request.rows[:limit] if row.value is not None]\n    return {"count": len(result), "rows": result}\n`).join("\n"),
  ],
  chinese: [
    list(6, (i) => `第${i + 1}步：先打开项目文件夹，阅读说明文件，然后运行全部测试。如果有一个测试失败，请找出原因，修改代码，再运行一次。完成以后写一份简短的报告，说明改了什么、为什么要改，以及还有哪些问题没有解决。`).join("\n"),
  ],
  japanese: [
    list(6, (i) => `手順${i + 1}：まずプロジェクトのフォルダーを開き、説明を読んでから、すべてのテストを実行してください。テストが失敗した場合は、原因を調べてコードを直し、もう一度実行します。終わったら、何を変えたのかを短く報告してください。`).join("\n"),
  ],
  korean: [
    list(6, (i) => `${i + 1}단계: 먼저 프로젝트 폴더를 열고 설명을 읽은 다음 모든 테스트를 실행하세요. 테스트가 실패하면 원인을 찾아 코드를 고치고 다시 실행합니다. 끝나면 무엇을 바꾸었는지 짧게 보고해 주세요.`).join("\n"),
  ],
  german: [
    list(5, (i) => `Schritt ${i + 1}: Öffne zuerst den Projektordner, lies die Beschreibung und führe anschließend alle Prüfungen aus. Schlägt eine Prüfung fehl, so suche die Ursache, ändere den Quelltext und wiederhole den Vorgang. Berichte zum Schluss kurz, was geändert wurde und welche Fragen offen bleiben.`).join("\n"),
  ],
  russian: [
    list(5, (i) => `Шаг ${i + 1}: сначала откройте папку проекта, прочитайте описание и запустите все проверки. Если проверка не проходит, найдите причину, исправьте код и повторите запуск. В конце коротко расскажите, что было изменено и какие вопросы остались.`).join("\n"),
  ],
};

const rows = [];
for (const [kind, texts] of Object.entries(samples)) {
  for (const text of texts) {
    rows.push(counted(kind, text));
  }
}
write(rows);
