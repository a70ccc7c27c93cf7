/** Checks the links of the built site: every internal link must lead to a file, and to an anchor in it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** The checked pages and links, and a line for each dead link. */
export function findDeadLinks(directory, base) {
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.html'),
  )
  const pages = new Map(files.map((name) => [name, readPage(path.join(directory, name))]))
  const dead = []
  let links = 0
  for (const [name, { hrefs }] of pages) {
    for (const href of hrefs) {
      const url = new URL(href, `http://site${base}${name}`)
      if (url.host !== 'site') continue
      links++
      const target = targetOf(url, base)
      const page = pages.get(target)
      const anchor = decodeURIComponent(url.hash.slice(1))
      if (
        page === undefined
          ? !existsSync(path.join(directory, target))
          : anchor !== '' && !page.ids.has(anchor)
      )
        dead.push(`${name}: ${href}`)
    }
  }
  return { pages: pages.size, links, dead }
}

function readPage(file) {
  const html = readFileSync(file, 'utf8')
  return {
    ids: new Set(Array.from(html.matchAll(/\bid="([^"]+)"/g), ([, id]) => id)),
    hrefs: Array.from(html.matchAll(/<a\b[^>]*\bhref="([^"]+)"/g), ([, href]) =>
      href.replaceAll('&amp;', '&'),
    ),
  }
}

/** The file that a static host serves for a URL. */
function targetOf({ pathname }, base) {
  const name = decodeURIComponent(pathname).slice(base.length)
  if (name === '' || name.endsWith('/')) return `${name}index.html`
  return path.extname(name) === '' ? `${name}.html` : name
}
