/** The service `filesystem.Filesystem` of envd. */
import path from 'node:path'
import { isCode } from 'nacre/internal'
import { describeAll } from '../entry.js'
import { RpcError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import type { Message } from '../http.js'
import { flagOf, type Method, numberOf, textOf } from './connect.js'
import { keepAlive } from './keep-alive.js'
import { describeFile } from './metadata.js'
import { openWatch, Watchers } from './watch.js'

const watchers = new Watchers()

export const filesystemMethods: Record<string, Method> = {
  Stat: {
    kind: 'unary',
    run: async (input, { hosted }) => ({ entry: await describeFile(hosted, pathOf(input, 'path', hosted)) }),
  },
  ListDir: {
    kind: 'unary',
    async run(input, { hosted }) {
      const directory = pathOf(input, 'path', hosted)
      const depth = numberOf(input, 'depth') || 1
      await expectDirectory(hosted, directory)
      const entries = await describeAll(hosted, directory, depth, describeFile)
      return { entries }
    },
  },
  MakeDir: {
    kind: 'unary',
    async run(input, { hosted }) {
      const directory = pathOf(input, 'path', hosted)
      const { files } = hosted.sandbox
      const known = await files.stat(directory)
      if (known?.type === 'directory')
        throw new RpcError('already_exists', `the directory ${hosted.view.shown(directory)} exists already`)
      if (known !== null) throw new RpcError('invalid_argument', `${known.path} exists and is no directory`)
      await files.mkdir(directory)
      return { entry: await describeFile(hosted, directory) }
    },
  },
  Move: {
    kind: 'unary',
    async run(input, { hosted }) {
      const [from, to] = [pathOf(input, 'source', hosted), pathOf(input, 'destination', hosted)]
      const { files } = hosted.sandbox
      await describeFile(hosted, from)
      const parent = path.dirname(to)
      if (!(await files.exists(parent))) await files.mkdir(parent)
      await files.rename(from, to)
      return { entry: await describeFile(hosted, to) }
    },
  },
  Remove: {
    kind: 'unary',
    async run(input, { hosted }) {
      const file = pathOf(input, 'path', hosted)
      await hosted.sandbox.files.remove(file, { recursive: true }).catch((error) => {
        if (!isCode(error, 'FILE_NOT_FOUND')) throw error
      })
      return {}
    },
  },
  WatchDir: {
    kind: 'replies',
    async *run(input, { hosted, headers, gone }) {
      const events = await watch(input, hosted, gone)
      yield { start: {} }
      for await (const event of keepAlive(events, headers))
        yield event === 'ping' ? { keepalive: {} } : { filesystem: event }
    },
  },
  CreateWatcher: {
    kind: 'unary',
    run: (input, { hosted }) => watchers.create(hosted, async (signal) => await watch(input, hosted, signal)),
  },
  GetWatcherEvents: {
    kind: 'unary',
    run: (input, { hosted }) => ({ events: watchers.take(hosted, textOf(input, 'watcherId')) }),
  },
  RemoveWatcher: {
    kind: 'unary',
    run(input, { hosted }) {
      watchers.remove(hosted, textOf(input, 'watcherId'))
      return {}
    },
  },
}

function pathOf(input: Message, name: string, { view }: Hosted): string {
  return view.resolve(textOf(input, name))
}

async function watch(input: Message, hosted: Hosted, signal: AbortSignal) {
  const directory = pathOf(input, 'path', hosted)
  await expectDirectory(hosted, directory)
  const options = { recursive: flagOf(input, 'recursive'), withEntry: flagOf(input, 'includeEntry'), signal }
  return openWatch(hosted, directory, options)
}

async function expectDirectory({ sandbox, view }: Hosted, directory: string): Promise<void> {
  const known = await sandbox.files.stat(directory)
  if (known === null) throw new RpcError('not_found', `there is no directory ${view.shown(directory)}`)
  if (known.type !== 'directory')
    throw new RpcError('invalid_argument', `${view.shown(directory)} is no directory`)
}
