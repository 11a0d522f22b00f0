export const meta = {
  name: 'migrate',
  description: 'Make the same change at every place of a project, each in a worktree of its own, and verify each',
  whenToUse: 'A change that many files need. args: { change, where?, check? }',
  phases: [{ title: 'Find' }, { title: 'Transform' }, { title: 'Verify' }],
}

const change = typeof args === 'string' ? args : args?.change
if (!change) throw new Error('migrate needs args.change: what to change')

const SITES = {
  type: 'object',
  required: ['sites'],
  properties: {
    sites: {
      type: 'array',
      items: {
        type: 'object',
        required: ['file', 'what'],
        properties: { file: { type: 'string' }, what: { type: 'string' } },
      },
    },
  },
}
const CHECKED = {
  type: 'object',
  required: ['good', 'reason'],
  properties: { good: { type: 'boolean' }, reason: { type: 'string' } },
}

phase('Find')
const { sites } = await agent(
  `Find every file that this change concerns: ${change}\n${args?.where ? `Look only here: ${args.where}\n` : ''}Read enough to be sure. Report each file once, with what has to be done in it. Change nothing.`,
  { label: 'sites', schema: SITES },
)
log(`${sites.length} files`)

const done = await pipeline(
  sites,
  (site) => agent(
    `Make this change: ${change}\nOnly in the file ${site.file}: ${site.what}\n${args?.check ? `Run this check before you finish: ${args.check}\n` : ''}Commit it in your worktree. Report the branch and what you did.`,
    { label: site.file, phase: 'Transform', isolation: 'worktree' },
  ),
  async (report, site) => {
    const checked = await agent(
      `A change was made: ${change}\nIn ${site.file}, with this report:\n${report}\nRead what was done on that branch and try to find what is wrong or missing. Change nothing.`,
      { label: `verify ${site.file}`, phase: 'Verify', schema: CHECKED },
    )
    return { file: site.file, report, ...checked }
  },
)
const finished = done.filter(Boolean)
return {
  good: finished.filter((site) => site.good),
  bad: finished.filter((site) => !site.good),
  failed: sites.length - finished.length,
}
