/** The site for programs that read: `npm run docs:site` writes each page as plain Markdown, and llms.txt. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { pages, site } from '../helpers/site.js'

const files = readdirSync(site, { recursive: true, encoding: 'utf8' })
const read = (name: string) => readFileSync(path.join(site, name), 'utf8')
const base = /href="([^"]*)install\.md"/.exec(read('install.html'))?.[1] ?? ''

/** The links of Markdown outside of code. */
function linksOf(text: string): string[] {
  const prose = text.replace(/```[\s\S]*?```/g, '').replace(/`[^`\n]*`/g, '')
  return Array.from(prose.matchAll(/\]\(([^)\s]+)\)/g), ([, link = '']) => link)
}

it('each page names its plain Markdown, which is there', () => {
  expect(pages.length).toBeGreaterThan(50)
  for (const name of pages) {
    const plain = name.replace(/html$/, 'md')
    expect(read(name), name).toContain(`<link rel="alternate" type="text/markdown" href="${base}${plain}">`)
    expect(files, plain).toContain(plain)
  }
})

it('plain Markdown has the text of its page, without what only the site and the tests need', () => {
  expect(read('options/sandbox.md')).toContain('## new Sandbox\n')
  expect(read('guide/sessions.md')).toContain("import { Sandbox } from 'nacre'")
  for (const name of pages) {
    const text = read(name.replace(/html$/, 'md'))
    expect(text, name).toMatch(/^# \S/)
    expect(text, name).not.toMatch(/^---\n|<!--|^```\w+ /m)
  }
})

it('every link of plain Markdown leads to a file', () => {
  let count = 0
  for (const name of [...files.filter((one) => one.endsWith('.md')), 'llms.txt']) {
    for (const link of linksOf(read(name))) {
      if (/^[a-z]+:|^#/.test(link)) continue
      count++
      const target = link.replace(/#.*/, '')
      const file = target.startsWith('/')
        ? path.join(site, target.slice(base.length))
        : path.join(site, path.dirname(name), target)
      expect(existsSync(file), `${name}: ${link}`).toBe(true)
    }
  }
  expect(count).toBeGreaterThan(500)
})

it('llms.txt lists the guides and the reference, each page with a sentence', () => {
  const text = read('llms.txt')
  expect(text).toMatch(/^# nacre\n\n> Persistent bash sessions .*\.\n\n## Start\n\n- \[Install\]/)
  for (const title of ['First steps', 'Isolation', 'Options', 'Errors', 'HTTP API', 'Troubleshooting'])
    expect(text).toMatch(new RegExp(`^- \\[${title}\\]\\(${base}[\\w/-]+\\.md\\): \\S.*\\.$`, 'm'))
  for (const module of ['nacre', '@nacre/server'])
    expect(text).toContain(`- [${module}](${base}reference/api/`)
})

it('the list of the API begins with nacre, and says in a sentence what each entry is', () => {
  const rows = read('reference/api/index.md')
    .split('\n')
    .filter((line) => line.startsWith('| ['))
  expect(rows).toHaveLength(12)
  expect(rows[0]).toMatch(/^\| \[nacre\]/)
  for (const row of rows) expect(row).toMatch(/^\| \[@?nacre[\w/-]*\]\([^)]+\) \| (?!.*\. [A-Z]).+\. \|$/)
})
