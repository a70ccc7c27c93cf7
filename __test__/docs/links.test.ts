/** Links between the Markdown files of the repository lead to a file, and to a heading of it. */
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { pages, readPage, root } from '../helpers/markdown.js'

/** As GitHub makes them: lower case, without punctuation, with hyphens for blanks. */
function anchor(heading: string): string {
  return heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

/** The page without its code. */
function prose(page: string): string {
  return readPage(page).replaceAll(/^```.*?^```$/gms, '')
}

function headings(page: string): string[] {
  return Array.from(prose(page).matchAll(/^#+ (.*)$/gm), ([, heading = '']) => anchor(heading))
}

/** Why a link is broken, or undefined. */
function fault(page: string, link: string): string | undefined {
  const [file = '', hash = ''] = link.split('#')
  const target = file === '' ? page : path.join(path.dirname(page), file)
  if (!existsSync(path.join(root, target))) return `${link}: no such file`
  if (hash !== '' && !headings(target).includes(hash)) return `${link}: no such heading`
  return undefined
}

const top = readdirSync(root).filter((name) => name.endsWith('.md'))

describe('links', () => {
  it.each([...top, ...pages()])('of %s lead somewhere', (page) => {
    const text = prose(page).replaceAll(/`[^`\n]*`/g, '')
    const links = Array.from(text.matchAll(/\]\(([^)\s]+)\)/g), ([, link = '']) => link)
    const local = links.filter((link) => !/^[a-z]+:/.test(link))
    expect(local.map((link) => fault(page, link)).filter((each) => each !== undefined)).toEqual([])
  })
})
