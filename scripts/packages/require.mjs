/**
 * The files that `require` loads in Jest before Node.js 24.9: its own `require` can load no ES modules. Everything else has one
 * of the conditions `module-sync`, `module` and `default` of package.json, and loads the ES module itself.
 *
 * A script that runs in the realm of Node.js gets the `process` of Node.js, and so its `require`. Jest keeps its tests from that
 * in all other ways. The ES module is then loaded once per process, as without Jest, and its classes are the same everywhere.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'

/** Writes the file of each entry of `exports`, next to its ES module. */
export function writeRequired(exports, directory) {
  for (const { require: file, default: module } of Object.values(exports))
    if (file !== undefined) writeFileSync(path.join(directory, file), text(path.basename(module)))
}

function text(module) {
  return `'use strict'
// For Jest, whose require loads no ES modules.
const { createRequire } = require('node:vm').runInThisContext('process').getBuiltinModule('node:module')
module.exports = createRequire(__filename)('./${module}')
`
}
