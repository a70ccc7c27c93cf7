/**
 * The documentation site. `npm run docs:site` writes the pages in reference/, then builds the site. DOCS_BASE is the path
 * of the site on its host, `/` by default.
 */
import { existsSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'
import { nameColumns } from './columns.mjs'
import { navigation } from './navigation.mjs'
import { nameRows, splitRows } from './rows.mjs'
import { slugify } from './slugify.mjs'

const REPOSITORY = 'https://github.com/nacre-dev/nacre'
const base = process.env.DOCS_BASE ?? '/'
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

/** The pages of the API, listed by typedoc. */
function apiItems() {
  const file = new URL('../reference/api/typedoc-sidebar.json', import.meta.url)
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []
}

/** Pages that explain come before those that list everything. Runs in the reader's browser. */
function boostDocument(id) {
  if (/[/](reference|options|decisions)[/]/.test(id)) return 1
  return id.includes('/guide/') ? 8 : 4
}

/**
 * Changes of VitePress for screen readers: the home page gets a main landmark, and the search button gets no text that its
 * name lacks. theme/contrast.css shows the K of its keys. The search is a dialog, and each of its results is an option with the
 * text that it shows as its name.
 */
const forScreenReaders = {
  name: 'for-screen-readers',
  enforce: 'pre',
  transform(code, id) {
    if (id.endsWith('/VPHome.vue')) return code.replace('class="VPHome"', 'class="VPHome" role="main"')
    if (id.endsWith('/VPNavBarSearchButton.vue')) return code.replace('>K</kbd>', '></kbd>')
    if (id.endsWith('/VPLocalSearchBox.vue'))
      return code
        .replace(/role="button"[^>]*?aria-haspopup="listbox"/, 'role="dialog" aria-modal="true"')
        .replace(
          /(:id="'localsearch-item-[^>]*?)role="option"([^>]*>\s*<a)/,
          'role="presentation"$2 $1 role="option"',
        )
        .replace(/:aria-label="\[\.\.\.p\.titles[^\n]*/, '')
        .replaceAll('<kbd ', '<kbd role="img" ')
        .replace('class="title-icon"', 'class="title-icon" aria-hidden="true"')
  },
}

export default defineConfig({
  title: 'nacre',
  description: 'Persistent bash sessions for programs and AI agents, on Node.js and Bun',
  lang: 'en',
  base,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}logo.svg` }]],
  srcExclude: ['node_modules/**'],
  cleanUrls: false,
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify },
    toc: { slugify },
    config(md) {
      const fence = md.renderer.rules.fence
      md.renderer.rules.fence = (tokens, index, ...rest) => {
        const { info, content } = tokens[index]
        if (info.trim() === 'mermaid') return `<Diagram source="${encodeURIComponent(content)}" />\n`
        return fence(tokens, index, ...rest)
      }
      md.core.ruler.push('columns', ({ tokens }) => nameColumns(tokens))
      md.core.ruler.push('rows', ({ tokens }) => nameRows(tokens))
    },
  },
  transformPageData(page) {
    if (page.relativePath.startsWith('reference/')) page.frontmatter.editLink = false
  },
  transformHead({ pageData }) {
    const href = `${base}${pageData.relativePath}`
    return pageData.isNotFound ? [] : [['link', { rel: 'alternate', type: 'text/markdown', href }]]
  },
  themeConfig: {
    logo: '/logo.svg',
    nav: [
      { text: 'Guide', link: '/guide/first-steps' },
      { text: 'Reference', link: '/options' },
      { text: 'Internals', link: '/sessions' },
      { text: 'Troubleshooting', link: '/troubleshooting' },
      { text: version, items: [{ text: 'Changelog', link: '/reference/changelog' }] },
    ],
    sidebar: navigation(apiItems()),
    outline: [2, 3],
    search: {
      provider: 'local',
      options: {
        _render: (text, env, md) => splitRows(md.render(text, env)),
        miniSearch: { searchOptions: { boostDocument } },
      },
    },
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    editLink: { pattern: `${REPOSITORY}/edit/main/docs/:path`, text: 'Edit this page' },
    footer: { message: 'MIT licence' },
  },
  vite: {
    plugins: [forScreenReaders],
    // mermaid and the search index are loaded only when a page needs them.
    build: { chunkSizeWarningLimit: 4000 },
  },
})
