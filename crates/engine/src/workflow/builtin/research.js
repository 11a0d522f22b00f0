export const meta = {
  name: 'research',
  description: 'Research a question from several sides, check each claim against its source, and cite',
  whenToUse: 'A question that needs several sources. args: the question, or { question, angles }',
  phases: [{ title: 'Plan' }, { title: 'Search' }, { title: 'Verify' }, { title: 'Write' }],
}

const question = typeof args === 'string' ? args : args?.question
if (!question) throw new Error('research needs a question in args')

const CLAIMS = {
  type: 'object',
  required: ['claims'],
  properties: {
    claims: {
      type: 'array',
      items: {
        type: 'object',
        required: ['claim', 'source'],
        properties: { claim: { type: 'string' }, source: { type: 'string' }, quote: { type: 'string' } },
      },
    },
  },
}
const ANGLES = {
  type: 'object',
  required: ['angles'],
  properties: { angles: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 6 } },
}
const VERDICT = {
  type: 'object',
  required: ['holds', 'reason'],
  properties: { holds: { type: 'boolean' }, reason: { type: 'string' } },
}

phase('Plan')
const angles = args?.angles ?? (await agent(
  `A question is to be researched: ${question}\nName three to six different angles to search from: different sources, opposing views, primary documents.`,
  { label: 'angles', schema: ANGLES },
)).angles

phase('Search')
const found = await pipeline(
  angles,
  (angle, _item, index) => agent(
    `Research this question: ${question}\nOnly from this angle: ${angle}\nSearch, read the sources themselves, and report claims, each with the address or file that it comes from and the words that support it. Report nothing that you did not read.`,
    { label: `angle ${index + 1}`, phase: 'Search', schema: CLAIMS },
  ),
  (result) => parallel(result.claims.map((claim) => async () => {
    const verdict = await agent(
      `Check a claim by reading its source. Try to refute it.\nClaim: ${claim.claim}\nSource: ${claim.source}\nQuoted words: ${claim.quote ?? 'none'}\nIt holds only if the source says so.`,
      { label: `check: ${claim.claim.slice(0, 40)}`, phase: 'Verify', schema: VERDICT },
    )
    return { ...claim, ...verdict }
  })),
)
const claims = found.flat().filter(Boolean)
const kept = claims.filter((claim) => claim.holds)
log(`${kept.length} of ${claims.length} claims hold`)

phase('Write')
const report = await agent(
  `Answer the question: ${question}\nUse only these claims, and cite the source of each one that you use. Say what remains open.\n${JSON.stringify(kept, null, 1)}`,
  { label: 'report' },
)
return { report, sources: [...new Set(kept.map((claim) => claim.source))], refuted: claims.length - kept.length }
