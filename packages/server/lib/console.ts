/** The companion package `@nacre/console`: its page, which has no data and so needs no token, and recordings. */
import path from 'node:path'
import type { Hono } from 'hono'
import { isNotInstalled, notInstalled } from 'nacre/internal/server'

export interface Page {
  /** Below the root of the server. */
  path: string
  headers: Record<string, string>
  body: string
}

export interface StoredRecording {
  name: string
  bytes: number
  modifiedAt: Date
}

/** A variable, so that bundlers leave the import alone: most servers do not have the package. webpack needs a comment, too. */
const NAME = '@nacre/console'

/** What the package has for servers. */
interface Console {
  consolePages(): Page[]
  listRecordings(directory: string): Promise<StoredRecording[]>
  readRecording(directory: string, name: string): Promise<Uint8Array | undefined>
}

export interface Recordings {
  list(): Promise<StoredRecording[]>
  /** Undefined when there is no such recording. */
  read(name: string): Promise<Uint8Array | undefined>
}

/** The page and the recordings that the options ask for. Rejects with OptionError when the package is not installed. */
export async function loadConsole(options: {
  console: boolean
  recordings?: string | undefined
}): Promise<{ pages: readonly Page[]; recordings: Recordings | undefined }> {
  const needed = options.console ? 'console' : options.recordings === undefined ? undefined : 'recordings'
  if (needed === undefined) return { pages: [], recordings: undefined }
  const { consolePages, listRecordings, readRecording }: Console = await import(
    /* webpackIgnore: true */ `${NAME}/internal`
  ).catch((error) => {
    throw isNotInstalled(NAME, error) ? notInstalled(needed, NAME) : error
  })
  const directory = options.recordings === undefined ? undefined : path.resolve(options.recordings)
  return {
    pages: options.console ? consolePages() : [],
    recordings:
      directory === undefined
        ? undefined
        : { list: () => listRecordings(directory), read: (name) => readRecording(directory, name) },
  }
}

export function addPages(app: Hono, pages: readonly Page[]): void {
  for (const { path, headers, body } of pages) app.get(path, () => new Response(body, { headers }))
}
