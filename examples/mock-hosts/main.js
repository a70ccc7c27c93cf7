/** An agent installs a package and opens a pull request: with a token that it cannot read, and functions in place of the hosts. */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { github, registry } from './hosts.js'

/** What the agent does. Replace it with the commands of your model. */
const COMMANDS = [
  'npm install --silent greeting && node -e "console.log(require(\'greeting\'))"',
  'echo "$GITHUB_TOKEN"',
  `curl -sS -H "Authorization: Bearer $GITHUB_TOKEN" -d '{"title":"Greet"}' https://api.github.com/repos/me/app/pulls`,
  'curl -sS -H "Authorization: Bearer $GITHUB_TOKEN" -X DELETE https://api.github.com/repos/me/app',
]

const directory = await mkdtemp(path.join(os.tmpdir(), 'mock-hosts-'))
const sandbox = new Sandbox({
  cwd: directory,
  env: { npm_config_registry: 'https://registry.npmjs.org/' },
  isolation: {
    preset: 'workspace',
    network: {
      allow: [],
      secrets: {
        // With the real host, leave `handle` out and take the value from a safe place.
        GITHUB_TOKEN: {
          value: 'ghp_theRealTokenWhichNoCommandSees000000',
          placeholder: 'ghp_placeholder0000000000000000000000000',
          hosts: ['api.github.com'],
        },
      },
      requests: {
        'api.github.com': ['GET /repos/me/app/**', 'POST /repos/me/app/pulls'],
        'registry.npmjs.org': ['GET /**'],
      },
      handle: { 'api.github.com': github, 'registry.npmjs.org': registry },
    },
  },
})
try {
  for (const command of COMMANDS) {
    console.log(`$ ${command}`)
    const { all, denials } = await sandbox.exec(command, { mergeOutput: true, timeout: 60_000 })
    process.stdout.write(all)
    for (const { target, request } of denials)
      console.log(`[refused: ${request?.method} ${target}${request?.path}]`)
  }
} finally {
  await sandbox.destroy()
  await rm(directory, { recursive: true })
}
