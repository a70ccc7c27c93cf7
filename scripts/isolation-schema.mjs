/**
 * Writes `isolation.schema.json`, the JSON Schema of `isolationFile`, from the options and their comments. Needs the build. The file
 * is checked in, as `index.d.ts` is.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { isolation } from '../dist/calls/isolation.js'
import { schemaOf } from '../packages/server/dist/document.js'

const isObject = ({ type }) => type === 'object'

/** The text of the file. */
export function isolationSchema() {
  const rules = schemaOf(isolation.json, {}).anyOf.find(isObject)
  rules.properties.$schema = { type: 'string' }
  // A file that refuses nothing would be taken for one with rules.
  delete rules.properties.learn
  // A request over HTTP cannot have it.
  const network = rules.properties.network.anyOf.find(isObject)
  network.properties.log = {
    type: 'string',
    description: 'A file that gets a line of JSON for each request.',
  }
  return `${JSON.stringify({ $schema: 'https://json-schema.org/draft/2020-12/schema', ...rules }, null, 2)}\n`
}

if (process.argv[1] === import.meta.filename) {
  const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
  writeFileSync(path.join(root, 'isolation.schema.json'), isolationSchema())
}
