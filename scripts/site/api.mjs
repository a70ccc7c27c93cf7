/** The reference pages that typedoc writes, made ready for readers. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { slugify } from '../../docs/.vitepress/slugify.mjs'
import { Problem } from '../packages/problem.mjs'

/** The page of the documentation whose first example with a class begins the page of this class. */
const EXAMPLES = {
  'index/classes/Sandbox': 'guide/first-steps',
  'index/classes/SandboxError': 'errors',
  'index/classes/OptionError': 'errors',
  'index/classes/AbortError': 'guide/first-steps',
  'index/classes/AddonError': 'errors',
  'client/interfaces/SandboxClient': 'guide/http',
  'container/classes/Session': 'migrate',
  'container/classes/ShellTerminatedError': 'migrate',
  'container/classes/SessionDestroyedError': 'migrate',
  'packages/queue/classes/JobQueue': 'queue',
  'packages/queue/classes/JobWorker': 'queue',
}

/** Changes the pages in a directory of `docs`. */
export function finishApi(docs, api) {
  nameModules(api)
  shortenPages(api)
  addExamples(docs, api)
}

/** Puts an example below the description of each class. */
function addExamples(docs, api) {
  const classes = readdirSync(api, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.includes('/classes/'),
  )
  const missing = classes.filter((name) => EXAMPLES[name.replace(/\.md$/, '')] === undefined)
  if (missing.length > 0) throw new Problem(`scripts/site/api.mjs names no example for ${missing.join(', ')}`)
  for (const [name, source] of Object.entries(EXAMPLES)) {
    const page = path.join(api, `${name}.md`)
    const text = readFileSync(path.join(docs, `${source}.md`), 'utf8')
    const word = new RegExp(`\\b${path.basename(name)}\\b`)
    const block = text.match(/^```[jt]s .*\n[\s\S]*?^```$/gm)?.find((code) => word.test(code))
    if (block === undefined) throw new Problem(`docs/${source}.md has no example with ${path.basename(name)}`)
    const [, title] = /^# (.*)$/m.exec(text)
    const link = path.relative(path.dirname(page), path.join(docs, `${source}.md`))
    const example = `${block}\n\nFrom [${title}](${link}).\n\n`
    writeFileSync(
      page,
      readFileSync(page, 'utf8').replace(/^## /m, () => `${example}## `),
    )
  }
}

/**
 * typedoc names a module by its file; readers know the entry points of the package. In the lists of a module, each entry gets
 * one sentence, and its groups in the sidebar lead to these lists.
 */
function nameModules(api) {
  const names = {
    index: 'nacre',
    client: 'nacre/client',
    container: 'nacre/container',
    engine: 'nacre/engine',
    otel: 'nacre/otel',
    'packages/compat': '@nacre/compat',
    'packages/console': '@nacre/console',
    'packages/fleet': '@nacre/fleet',
    'packages/queue': '@nacre/queue',
    'packages/remote-jobs': '@nacre/remote-jobs',
    'packages/server': '@nacre/server',
    'packages/tools': '@nacre/tools',
  }
  const sidebar = path.join(api, 'typedoc-sidebar.json')
  const items = JSON.parse(readFileSync(sidebar, 'utf8'))
  const modules = items.flatMap((item) =>
    item.text === 'packages'
      ? item.items.map((one) => ({ ...one, text: names[`packages/${one.text}`] }))
      : [{ ...item, text: names[item.text] }],
  )
  for (const { link, items } of modules)
    for (const group of items) group.link = `${link}#${slugify(group.text)}`
  writeFileSync(sidebar, JSON.stringify(modules))
  const list = path.join(api, 'index.md')
  const text = readFileSync(list, 'utf8').replaceAll(/\| \[(.+?)\]/g, (_, name) => `| [${names[name]}]`)
  writeFileSync(list, firstSentences(text))
  for (const [file, name] of Object.entries(names)) {
    const page = path.join(api, file, 'index.md')
    writeFileSync(page, firstSentences(readFileSync(page, 'utf8').replace(/^# .*$/m, `# ${name}`)))
  }
}

/** A member that typedoc repeats from another type, which has a page. */
const INHERITED =
  /(<a id="[^"]+"><\/a>)\n\n### (.+)\n(?:(?!\n##? |\n### )[\s\S])*?#### Inherited from\n\n.*\((\S+#\S+)\)\n(?:\n\*\*\*\n)?/g

/** Makes the pages of classes and interfaces shorter: of an inherited member, only a link remains. */
function shortenPages(api) {
  for (const name of readdirSync(api, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.md'),
  )) {
    const text = readFileSync(path.join(api, name), 'utf8')
      .replaceAll(INHERITED, '- $1[$2]($3), inherited\n')
      .replaceAll('\n***\n', '')
      .replaceAll('#### Parameters\n\n', '')
      .replaceAll('#### Returns\n\n', '**Returns** ')
      // typedoc links to the member `$` by another anchor than it gives it.
      .replaceAll('#property)', '#property-)')
    writeFileSync(path.join(api, name), text)
  }
}

/** Shortens the rows of a list, which begin with a link. */
function firstSentences(text) {
  return text.replaceAll(/^(\| \[.*?\]\(.*?\) \| .*?\.) .*\|$/gm, '$1 |')
}
