/** The files of one session, on this process's engine. */
import { decodeText } from '../../../base/text.js'
import type { NativeFileAction } from '../../../boundary/index.js'
import type { Encoding, FileInfo, Output } from '../../../calls/index.js'
import type { FileReadPlan, FileStreamPlan, FileWatchPlan, FileWritePlan } from '../../../requests/files.js'
import type { FileSource, FilesBackend } from '../../../sandbox/backend.js'
import type { CheckedPath } from '../../../schema/paths.js'
import { type Engine, returned } from '../engine.js'
import { infoOf } from './info.js'
import { type FileScope, readWhole, Source } from './source.js'
import { FileWatch } from './watch.js'
import { writeFile } from './write.js'

interface Ends {
  from: CheckedPath
  to: CheckedPath
}

/** The engine's own limit. */
const MOST_ENTRIES = 1_000_000

export class NativeFiles implements FilesBackend {
  readonly #scope: FileScope

  /** With a root, relative paths start there and no path leaves it; `chmod`, `rename`, `copy` and `watch` are refused. */
  constructor(engine: Engine, sessionId: string, root: string | null = null) {
    this.#scope = { engine, sessionId, root }
  }

  async read(plan: FileReadPlan): Promise<Output<Encoding>> {
    const bytes = await readWhole(this.#scope, plan)
    return plan.encoding === 'buffer' ? bytes : decodeText(bytes)
  }

  open(path: CheckedPath, plan: FileStreamPlan): FileSource {
    return new Source(this.#scope, path, plan)
  }

  /** With extended attributes of the new file, by their names. */
  write(plan: FileWritePlan, attributes?: Record<string, string>): Promise<FileInfo> {
    return writeFile(this.#scope, plan, attributes)
  }

  /** The extended attributes of a regular file whose names begin with `prefix`. */
  async attributes(path: CheckedPath, prefix: string): Promise<Record<string, string>> {
    const { engine, sessionId } = this.#scope
    return returned(
      await engine.call((native, id) => native.fileAttributes(id, sessionId, path.bytes, prefix)),
    )
  }

  /** Rejects with FILE_TOO_LARGE for more than `most` entries. */
  async list(path: CheckedPath, depth: number, most = MOST_ENTRIES): Promise<FileInfo[]> {
    const { engine, sessionId, root } = this.#scope
    const { files, handle } = returned(
      await engine.call((native, id) => native.fileList(id, sessionId, path.bytes, depth, most, root)),
    )
    const list = files.map(infoOf)
    if (handle === undefined) return list
    try {
      for (;;) {
        const more = returned(await engine.call((native, id) => native.fileListNext(id, handle)))
        if (more.length === 0) return list
        list.push(...more.map(infoOf))
      }
    } finally {
      engine.release((native) => native.fileClose(handle))
    }
  }

  async stat(path: CheckedPath, follow = true): Promise<FileInfo | null> {
    const { engine, sessionId, root } = this.#scope
    const file = await engine.call((native, id) => native.fileStat(id, sessionId, path.bytes, follow, root))
    return file && infoOf(file)
  }

  mkdir({ path }: { path: CheckedPath }): Promise<void> {
    return this.#change({ kind: 'mkdir', path: path.bytes })
  }

  chmod({ path, mode }: { path: CheckedPath; mode: number }): Promise<void> {
    return this.#change({ kind: 'chmod', path: path.bytes, mode })
  }

  rename({ from, to }: Ends): Promise<void> {
    return this.#change({ kind: 'rename', path: from.bytes, to: to.bytes })
  }

  copy({ from, to, recursive }: Ends & { recursive: boolean }): Promise<void> {
    return this.#change({ kind: 'copy', path: from.bytes, to: to.bytes, recursive })
  }

  remove({ path, recursive }: { path: CheckedPath; recursive: boolean }): Promise<void> {
    return this.#change({ kind: 'remove', path: path.bytes, recursive })
  }

  async #change(
    action: Omit<NativeFileAction, 'recursive' | 'root'> & { recursive?: boolean },
  ): Promise<void> {
    const { engine, sessionId, root } = this.#scope
    const request = { recursive: false, root: root ?? undefined, ...action }
    await engine.call((native, id) => native.fileChange(id, sessionId, request))
  }

  watch(path: CheckedPath, plan: FileWatchPlan): FileWatch {
    return new FileWatch(this.#scope, path, plan)
  }
}
