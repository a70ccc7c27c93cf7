/** What a page in a browser cannot see: that the server has refused its origin. */

/** The remedy, for an error of `fetch` in a page of another origin than the server's; elsewhere an empty text. */
export function hintForPages(url: string): string {
  const { origin } = globalThis as { origin?: unknown }
  if (typeof origin !== 'string' || !URL.canParse(url) || new URL(url).origin === origin) return ''
  if (origin === 'null')
    return '. This page has no origin, like a file or a sandboxed frame, so no server answers it: serve it over HTTP'
  return `. This page is of another origin: the server answers it only with --allow-origin ${origin} (the option allowedOrigins)`
}
