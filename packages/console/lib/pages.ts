/** The page, as `@nacre/server` serves it: a document, a script and a style sheet whose names change with their content. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

interface Page {
  path: string
  headers: Record<string, string>
  body: string
}

const DIRECTORY = fileURLToPath(new URL('./page/', import.meta.url))

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/** xterm.js sets styles of elements. Nothing is loaded from elsewhere, and no other page can show this one. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; font-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const HEADERS = {
  'Content-Security-Policy': POLICY,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}

export function consolePages(): Page[] {
  return readdirSync(DIRECTORY).map((name) => {
    const isDocument = name === 'index.html'
    return {
      path: isDocument ? '/console' : `/console/${name}`,
      headers: {
        ...HEADERS,
        'Content-Type': TYPES[path.extname(name)] ?? 'application/octet-stream',
        'Cache-Control': isDocument ? 'no-store' : 'public, max-age=31536000, immutable',
      },
      body: readFileSync(path.join(DIRECTORY, name), 'utf8'),
    }
  })
}
