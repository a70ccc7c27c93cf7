/** Translates the engine's descriptions of files to the public form. */
import type { NativeFile } from '../../../boundary/index.js'
import type { FileInfo } from '../../../calls/index.js'
import { nameOf } from '../../../schema/paths.js'

export function infoOf(file: NativeFile): FileInfo {
  const { path, pathBytes, size, mode, uid, gid, target } = file
  return {
    path,
    ...(pathBytes && { pathBytes }),
    name: nameOf(path),
    type: file.kind,
    size,
    mode,
    uid,
    gid,
    modifiedAt: new Date(Math.round(file.modified)),
    ...(target !== undefined && { target }),
  }
}
