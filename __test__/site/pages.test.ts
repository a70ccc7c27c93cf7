/** Pages of the documentation site as readers see them: on a laptop and on a phone, with light and dark colours. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launchChromium } from '../helpers/chromium.js'
import { pages, site as root, serveSite } from '../helpers/site.js'

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

/** A page of each kind: axe takes seconds for a page. */
const KINDS = [
  'index.html',
  'guide/sessions.html',
  'sessions.html',
  'errors.html',
  'comparison.html',
  'options/commands.html',
  'http.html',
  'reference/api/index.html',
  'reference/api/index/classes/SandboxError.html',
]

const FORMS = [1280, 390].flatMap((width) => [
  { width, colors: 'light' as const },
  { width, colors: 'dark' as const },
])

let browser: Browser
let site: { url: string; close(): void }

beforeAll(async () => {
  browser = await launchChromium()
  site = await serveSite()
})

afterAll(async () => {
  await browser?.close()
  site?.close()
})

/** Calls back with a page of the browser, in a window of 800 lines. */
async function withPage(
  options: { width: number; colors?: 'light' | 'dark'; scripts?: boolean },
  use: (page: Page) => Promise<void>,
): Promise<void> {
  const { width, colors: colorScheme = 'light', scripts: javaScriptEnabled = true } = options
  const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme, javaScriptEnabled })
  try {
    await use(page)
  } finally {
    await page.close()
  }
}

/** What axe finds: the rule, and the first elements that break it. */
async function findings(page: Page): Promise<string[]> {
  await page.addScriptTag({ path: axe })
  return await page.evaluate(`axe.run({ resultTypes: ['violations'] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => [id, ...nodes.slice(0, 5).map(({ html }) => html.slice(0, 200))].join('\\n')))`)
}

describe.each(FORMS)('in a window of $width pixels with $colors colours', ({ width, colors }) => {
  it.each(KINDS)(
    '%s is accessible',
    (name) =>
      withPage({ width, colors }, async (page) => {
        await page.goto(`${site.url}/${name}`, { waitUntil: 'networkidle' })
        expect(await page.locator('html.dark').count()).toBe(colors === 'dark' ? 1 : 0)
        expect(await findings(page)).toEqual([])
      }),
    60_000,
  )
})

describe.each(['light', 'dark'] as const)('with %s colours, what opens is accessible:', (colors) => {
  it.each([
    ['the menu of a phone', 390, 'button.VPNavBarHamburger', '.VPNavScreen'],
    ['the contents on a phone', 390, '.VPLocalNav button.menu', '.VPSidebar.open'],
    ['the search', 1280, '#local-search button', '.VPLocalSearchBox'],
    ['the search on a phone', 390, '#local-search button', '.VPLocalSearchBox'],
  ])(
    '%s',
    (_, width, button, opened) =>
      withPage({ width, colors }, async (page) => {
        await page.goto(`${site.url}/guide/sessions.html`, { waitUntil: 'networkidle' })
        await page.click(button)
        await page.waitForSelector(opened)
        if (opened === '.VPLocalSearchBox') {
          await page.fill(`${opened} input`, 'timeout')
          await page.waitForSelector(`${opened} .result`)
        }
        // It fades in, and axe measures the colours.
        await page.evaluate('Promise.allSettled(document.getAnimations().map(({ finished }) => finished))')
        expect(await findings(page)).toEqual([])
      }),
    60_000,
  )
})

it.each([1280, 390])(
  'in a window of %i pixels, the first screen has the sentence, the install line and the code',
  (width) =>
    withPage({ width }, async (page) => {
      await page.goto(`${site.url}/index.html`)
      const wanted =
        width === 390
          ? ['h1', '.language-sh', '.language-js']
          : [
              'h1',
              '.language-js',
              '.recording .ap-player',
              '.language-sh >> nth=1',
              'a[href$="isolation.html"]',
            ]
      for (const selector of wanted) {
        const box = await page.locator(`.first ${selector}`).first().boundingBox()
        expect((box?.y ?? Number.NaN) + (box?.height ?? 0), selector).toBeLessThanOrEqual(800)
      }
      expect((await page.innerText('.first .language-js code')).trim().split('\n')).toHaveLength(7)
    }),
)

it('plays the recording of the first screen', () =>
  withPage({ width: 1280 }, async (page) => {
    await page.goto(`${site.url}/index.html`)
    await page.click('.recording .ap-overlay-start')
    await page.getByText('undo rm -r src').waitFor()
  }))

it('begins the page of each class with an example', () => {
  const classes = pages.filter((name) => name.includes('/classes/'))
  expect(classes.length).toBeGreaterThan(5)
  for (const name of classes) {
    const [beginning = ''] = readFileSync(path.join(root, name.replace(/html$/, 'md')), 'utf8').split('\n## ')
    expect(beginning, name).toMatch(/^```[jt]s$/m)
  }
})

/** A page is split or shortened before it gets higher than this, in pixels. Phones need more for the same text. */
const MAX_HEIGHT = 15_000

/** Runs in the page: the beginnings of cells that end outside of the window or of the text. */
const CUT = `[...document.querySelectorAll('.vp-doc :is(table, th, td)')].filter((cell) => {
  const { right, width } = cell.getBoundingClientRect()
  const most = Math.min(innerWidth, document.querySelector('.vp-doc').getBoundingClientRect().right)
  return width > 0 && (right > most + 1 || cell.scrollWidth > cell.clientWidth + 1)
}).map((cell) => cell.textContent.slice(0, 60))`

it.each([1280, 390])(
  'in a window of %i pixels, no page is wider, no table is cut off, and no page is endless',
  (width) =>
    // The pages are complete without their scripts. Colours change no sizes.
    withPage({ width, scripts: false }, async (page) => {
      expect(pages.length).toBeGreaterThan(200)
      for (const name of pages) {
        await page.goto(`${site.url}/${name}`)
        expect(await page.evaluate(CUT), name).toEqual([])
        expect(await page.evaluate('document.documentElement.scrollWidth'), name).toBe(width)
        const height = await page.evaluate('document.documentElement.scrollHeight')
        expect(height, name).toBeLessThanOrEqual(width === 390 ? MAX_HEIGHT * 1.5 : MAX_HEIGHT)
      }
    }),
  240_000,
)
