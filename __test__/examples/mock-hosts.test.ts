/** examples/mock-hosts, run to its end. */
import { expect, it } from 'vitest'
import { openExample } from '../helpers/example.js'

it('installs from a mocked registry, and opens a pull request with a token that stays hidden', async () => {
  const example = await openExample('mock-hosts')
  try {
    expect(await example.run('main.js')).toEqual({
      exitCode: 0,
      stderr: '',
      stdout: `$ npm install --silent greeting && node -e "console.log(require('greeting'))"
hello from a mocked registry
$ echo "$GITHUB_TOKEN"
ghp_placeholder0000000000000000000000000
$ curl -sS -H "Authorization: Bearer $GITHUB_TOKEN" -d '{"title":"Greet"}' https://api.github.com/repos/me/app/pulls
pull request 1: Greet
$ curl -sS -H "Authorization: Bearer $GITHUB_TOKEN" -X DELETE https://api.github.com/repos/me/app
nacre: isolation.network does not allow DELETE https://api.github.com/repos/me/app. Allowed there: GET /repos/me/app/**, POST /repos/me/app/pulls.
[refused: DELETE api.github.com:443/repos/me/app]
`,
    })
  } finally {
    example.remove()
  }
}, 60_000)
