/** Code blocks that a reader could run are run by a test, or name the reason why not. */
import { describe, expect, it } from 'vitest'
import { findBlocks, pages, readPage } from '../helpers/markdown.js'

const RUNNABLE = ['js', 'javascript', 'ts', 'typescript', 'sh', 'bash']

describe('code blocks', () => {
  it.each(['README.md', 'CONTRIBUTING.md', ...pages()])('in %s run, or say why not', (page) => {
    const unmarked = findBlocks(readPage(page)).filter(
      ({ language, info }) =>
        RUNNABLE.includes(language) &&
        !(info === 'run' && ['js', 'sh'].includes(language)) &&
        !/^not-run="[^"]{5,}"$/.test(info),
    )
    expect(unmarked.map(({ line, language, info }) => `${page}:${line} ${language} ${info}`)).toEqual([])
  })
})
