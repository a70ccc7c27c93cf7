/**
 * Installs kubernetes-validate, which includes the schemas of the Kubernetes API, into a cache. Prints its path.
 *
 *   node scripts/packages/fetch-kubernetes-validate.mjs
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { KUBERNETES_VALIDATE_ENVIRONMENT } from './cache.mjs'
import { main } from './problem.mjs'
import { installPython } from './python.mjs'

const VERSION = '1.37.0'

await main(() => {
  // A directory for each version.
  const environment = path.join(KUBERNETES_VALIDATE_ENVIRONMENT, VERSION)
  const program = path.join(environment, 'bin', 'kubernetes-validate')
  if (!existsSync(program)) installPython(environment, `kubernetes-validate==${VERSION}`)
  console.log(program)
})
