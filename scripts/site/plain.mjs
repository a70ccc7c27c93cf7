/**
 * The site for programs that read: each page as plain Markdown next to its HTML, and llms.txt, which lists them as
 * https://llmstxt.org describes.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

/**
 * Writes them into the built site.
 *
 * @param {string} docs the directory of the sources
 * @param {string} site the directory of the built site
 * @param {object} about
 * @param {string} about.base the path of the site on its host
 * @param {string} about.name the title of llms.txt
 * @param {string} about.summary a sentence
 * @param {object[]} about.navigation groups of the sidebar
 */
export function writePlainPages(docs, site, about) {
  const names = readdirSync(site, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.html') && name !== '404.html')
    .map((name) => name.replace(/\.html$/, '.md'))
  const pages = new Map(names.map((name) => [name, plain(readFileSync(path.join(docs, name), 'utf8'))]))
  const list = contents(pages, about)
  // The home page is for people.
  pages.set('index.md', list)
  for (const [name, text] of [...pages, ['llms.txt', list]]) {
    mkdirSync(path.dirname(path.join(site, name)), { recursive: true })
    writeFileSync(path.join(site, name), text)
  }
}

/**
 * A page without what only the site or the tests read: front matter, comments, and words after a code block's language. The site
 * has the files of `public` at its top.
 */
function plain(text) {
  return `${text
    .replace(/^---\n[\s\S]*?\n---\n/, '')
    .replace(/<!--[\s\S]*?-->\n*/g, '')
    .replace(/^(```\w+) .*$/gm, '$1')
    .replaceAll('](./public/', '](./')
    .trim()}\n`
}

function contents(pages, { base, name, summary, navigation }) {
  const sections = navigation.map(({ text, items }) => {
    const lines = items.flatMap(leaves).map(({ text: title, link }) => {
      const file = `${link.slice(1)}${link.endsWith('/') ? 'index' : ''}`.replace(/(\.md)?$/, '.md')
      const about = introduction(pages.get(file) ?? '')
      return `- [${title}](${base}${file})${about === '' ? '' : `: ${about}`}`
    })
    return `## ${text}\n\n${lines.join('\n')}\n`
  })
  return [`# ${name}\n`, `> ${summary}.\n`, ...sections].join('\n')
}

/** The pages below an entry of the sidebar. Of the API, those of the modules: each lists what it exports. */
function leaves({ text, link, items = [] }) {
  return link === undefined ? items.flatMap(leaves) : [{ text, link }]
}

/** The first sentence below the title. */
function introduction(text) {
  const [, paragraph = ''] = /^# .*\n+([\w`@[*][\s\S]*?)\n\n/.exec(text) ?? []
  const line = paragraph.replaceAll('\n', ' ').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
  return /^.*?[.:](?= |$)/.exec(line)?.[0].replace(/[.:]$/, '.') ?? ''
}
