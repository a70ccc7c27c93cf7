/** Splits a long reference into pages, which its first page lists. */
import path from 'node:path'
import { slugify } from '../../docs/.vitepress/slugify.mjs'

/**
 * The pages by their names: `<name>.md` with the list, and one for each group below `<name>/`.
 *
 * @param {string} name
 * @param {string} head the text of the first page in front of the list
 * @param {{ page: string, title: string, pattern: RegExp }[]} groups a section belongs to the first whose pattern matches its title
 * @param {{ title: string, text: string }[]} sections
 */
export function splitPages(name, head, groups, sections) {
  const pages = {}
  const list = []
  for (const group of groups) {
    const own = sections.filter(({ title }) => groups.find(({ pattern }) => pattern.test(title)) === group)
    const file = `${name}/${group.page}.md`
    const links = own.map(({ title }) => `[${title}](${file}#${slugify(title)})`)
    list.push(`- [${group.title}](${file}): ${links.join('; ')}\n`)
    const intro = `# ${group.title}\n\n[All pages of this reference](../${path.basename(name)}.md)\n`
    pages[file] = [intro, ...own.map(({ text }) => text)].join('\n')
  }
  return { [`${name}.md`]: `${head}\n${list.join('')}`, ...pages }
}
