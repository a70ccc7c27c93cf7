/** The page of the companion package `@nacre/console`. It has no data, so it needs no token. */
import type { Hono } from 'hono'
import { isNotInstalled, notInstalled } from 'nacre/internal/server'

export interface Page {
  /** Below the root of the server. */
  path: string
  headers: Record<string, string>
  body: string
}

/** A variable, so that bundlers leave the import alone: most servers do not have the package. webpack needs a comment, too. */
const NAME = '@nacre/console'

/** Rejects with OptionError when the package is not installed. */
export async function loadConsole(): Promise<readonly Page[]> {
  const { consolePages }: { consolePages(): Page[] } = await import(
    /* webpackIgnore: true */ `${NAME}/internal`
  ).catch((error) => {
    throw isNotInstalled(NAME, error) ? notInstalled('console', NAME) : error
  })
  return consolePages()
}

export function addPages(app: Hono, pages: readonly Page[]): void {
  for (const { path, headers, body } of pages) app.get(path, () => new Response(body, { headers }))
}
