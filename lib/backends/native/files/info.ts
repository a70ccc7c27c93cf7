/** Translates the engine's descriptions of files to the public form. */
import type { NativeFile } from '../../../boundary/index.js'
import type { FileInfo } from '../../../calls/index.js'
import { nameOf } from '../../../schema/paths.js'

export function infoOf({
  path,
  pathBytes,
  kind,
  size,
  mode,
  uid,
  gid,
  modified,
  target,
}: NativeFile): FileInfo {
  return {
    path,
    ...(pathBytes && { pathBytes }),
    name: nameOf(path),
    type: kind,
    size,
    mode,
    uid,
    gid,
    modifiedAt: new Date(Math.round(modified)),
    ...(target !== undefined && { target }),
  }
}
