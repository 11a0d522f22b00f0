export const meta = {
  name: 'review',
  description: 'Review a change from several sides and have each finding refuted or confirmed by another agent',
  whenToUse: 'A change is to be reviewed. args: what to review, such as "git diff main...HEAD"',
  phases: [{ title: 'Find' }, { title: 'Verify' }],
}

const target = (typeof args === 'string' ? args : args?.target) ?? 'the uncommitted changes (git diff HEAD)'
const ASPECTS = [
  'correctness: conditions, boundaries, wrong variable, missing case, wrong order',
  'safety: untrusted input, paths, secrets, permissions, error handling, data that is lost',
  'surroundings: callers that relied on the old behaviour, documentation and tests that no longer hold',
]
const FINDINGS = {
  type: 'object',
  required: ['findings'],
  properties: {
    findings: {
      type: 'array',
      items: {
        type: 'object',
        required: ['file', 'line', 'summary', 'failure_scenario'],
        properties: {
          file: { type: 'string' },
          line: { type: 'integer' },
          summary: { type: 'string' },
          failure_scenario: { type: 'string' },
        },
      },
    },
  },
}
const VERDICT = {
  type: 'object',
  required: ['verdict', 'reason'],
  properties: { verdict: { enum: ['CONFIRMED', 'PLAUSIBLE', 'REFUTED'] }, reason: { type: 'string' } },
}

phase('Find')
const found = await parallel(ASPECTS.map((aspect) => () => agent(
  `Review ${target}. Look only at ${aspect}. Read the change and what surrounds it. Report real defects with a scenario in which each fails; no style. Change nothing.`,
  { label: aspect.split(':')[0], schema: FINDINGS },
)))
const seen = new Set()
const findings = found.filter(Boolean).flatMap((result) => result.findings).filter((finding) => {
  const key = `${finding.file}:${finding.line}`
  return !seen.has(key) && seen.add(key)
})
log(`${findings.length} findings to verify`)

const judged = await pipeline(findings, async (finding) => ({
  ...finding,
  ...(await agent(
    `A review of ${target} has this finding:\n${JSON.stringify(finding, null, 1)}\nTry to refute it by reading the code. Change nothing.`,
    { label: `${finding.file}:${finding.line}`, phase: 'Verify', schema: VERDICT },
  )),
}))
const kept = judged.filter((finding) => finding && finding.verdict !== 'REFUTED')
return { findings: kept, refuted: judged.filter(Boolean).length - kept.length }
