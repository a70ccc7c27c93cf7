/** Files and repositories of the official SDK of Daytona. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import {
  DaytonaConflictError,
  DaytonaFileNotFoundError,
  DaytonaGitAuthFailedError,
  DaytonaGitBranchExistsError,
  DaytonaGitBranchNotFoundError,
  DaytonaGitRepoNotFoundError,
  DaytonaInvalidFilePathError,
} from '@daytonaio/sdk'
import { describe, expect, it } from 'vitest'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { withDaytona, withDaytonaSandbox } from './daytona-place.js'

describe('files', () => {
  it('are uploaded and downloaded, with any name', () =>
    withDaytonaSandbox(async ({ fs, process }) => {
      const names = ['plain', 'with space', 'quote"\'', 'ünïcode', 'percent%20', 'semi;colon', 'deep/er/x']
      await fs.uploadFiles(names.map((name) => ({ source: Buffer.from(name), destination: `many/${name}` })))
      for (const name of names) expect((await fs.downloadFile(`many/${name}`)).toString()).toBe(name)
      expect((await process.executeCommand('cat ~/many/deep/er/x')).result).toBe('deep/er/x')
      const missing = ['many/plain', 'many/missing', 'many', 'many/ünïcode']
      const replies = await fs.downloadFiles(missing.map((source) => ({ source })))
      expect(replies.map(({ result }) => result?.toString())).toEqual([
        'plain',
        undefined,
        undefined,
        'ünïcode',
      ])
      expect(replies[1]?.errorDetails).toMatchObject({ statusCode: 404, code: 'FILE_NOT_FOUND' })
      await fs.uploadFile(Buffer.alloc(0), 'empty')
      expect((await fs.downloadFile('empty')).length).toBe(0)
      expect(await rejectionOf(fs.downloadFile('missing'))).toBeInstanceOf(DaytonaFileNotFoundError)
      expect(await rejectionOf(fs.downloadFile('many'))).toBeInstanceOf(DaytonaInvalidFilePathError)
      const large = Buffer.alloc(3_000_000, 'x')
      const both = ['many', 'after'].map((destination) => ({ source: large, destination }))
      expect((await rejectionOf(fs.uploadFiles(both))).message).toContain('many')
      expect((await fs.downloadFile('after')).length).toBe(large.length)
    }))

  it('may be large, and streams', () =>
    withDaytonaSandbox(async ({ fs }) => {
      const content = Buffer.from(new Uint8Array(20_000_000).map((_, at) => at * 7))
      await fs.uploadFile(content, '/tmp/large')
      expect(Buffer.compare(await fs.downloadFile('/tmp/large'), content)).toBe(0)
      const pieces: Buffer[] = []
      for await (const piece of await fs.downloadFileStream('/tmp/large')) pieces.push(piece as Buffer)
      expect(Buffer.compare(Buffer.concat(pieces), content)).toBe(0)
    }))

  it('are described and listed', () =>
    withDaytonaSandbox(async ({ fs, process }) => {
      await fs.createFolder('a/b', '700')
      await fs.uploadFile(Buffer.from('text'), 'a/b/c')
      await process.executeCommand('ln -s b a/link; ln -s loop a/loop')
      expect(await fs.getFileDetails('a/b')).toMatchObject({
        isDir: true,
        mode: 'drwx------',
        permissions: '0700',
      })
      expect(await fs.getFileDetails('/home/daytona/a/b/c')).toMatchObject({
        name: 'c',
        path: '/home/daytona/a/b/c',
        size: 4,
        isDir: false,
        owner: 'daytona',
        group: 'daytona',
      })
      const names = async (depth?: number) =>
        (await fs.listFiles('a', depth === undefined ? undefined : { depth })).map((file) => file.path)
      expect(await names()).toEqual(['b', 'link', 'loop'].map((name) => `/home/daytona/a/${name}`))
      expect(await names(2)).toContain('/home/daytona/a/b/c')
      expect(await rejectionOf(fs.listFiles('missing'))).toBeInstanceOf(DaytonaFileNotFoundError)
      expect(await rejectionOf(fs.listFiles('a/b/c'))).toBeInstanceOf(DaytonaInvalidFilePathError)
    }))

  it('are moved, deleted and given other permissions', () =>
    withDaytonaSandbox(async ({ fs }) => {
      await fs.uploadFile(Buffer.from('1'), 'a')
      await fs.uploadFile(Buffer.from('2'), 'b')
      expect(await rejectionOf(fs.moveFiles('a', 'b'))).toBeInstanceOf(DaytonaConflictError)
      await fs.moveFiles('a', 'c')
      expect((await fs.downloadFile('c')).toString()).toBe('1')
      for (const [from, to] of [
        ['missing', 'x'],
        ['b', 'missing/x'],
      ] as const)
        expect(await rejectionOf(fs.moveFiles(from, to))).toBeInstanceOf(DaytonaFileNotFoundError)
      await fs.setFilePermissions('c', { mode: '600', owner: String(process.getuid?.()) })
      expect(await fs.getFileDetails('c')).toMatchObject({ permissions: '0600' })
      // What is reported can be set, and what is refused changes nothing.
      const { owner, group } = await fs.getFileDetails('c')
      await fs.setFilePermissions('c', { mode: '640', owner, group })
      expect((await fs.getFileDetails('c')).permissions).toBe('0640')
      const refused = fs.setFilePermissions('c', { mode: '777', owner: 'no-such-user' })
      expect(await rejectionOf(refused)).toBeInstanceOf(Error)
      expect((await fs.getFileDetails('c')).permissions).toBe('0640')
      const wrong = fs.setFilePermissions('c', { mode: 'rw' })
      expect((await rejectionOf(wrong)).message).toContain('octal')
      await fs.createFolder('d/e', '755')
      expect((await rejectionOf(fs.deleteFile('d'))).message).toContain('recursive')
      await fs.deleteFile('d', true)
      await fs.deleteFile('c')
      for (const name of ['c', 'd'])
        expect(await rejectionOf(fs.deleteFile(name))).toBeInstanceOf(DaytonaFileNotFoundError)
    }))

  it('are searched by content and by name, and changed', () =>
    withDaytonaSandbox(async ({ fs }) => {
      await fs.uploadFile(Buffer.from('one\r\n-e two.*\nthree'), 's/a b.txt')
      await fs.uploadFile(Buffer.from('\0-e two.*'), 's/binary')
      await fs.uploadFile(Buffer.from('x'), 's/sub/c.txt')
      const found = [{ file: '/home/daytona/s/a b.txt', line: 2, content: '-e two.*' }]
      expect(await fs.findFiles('s', '-e two.*')).toEqual(found)
      expect(await fs.findFiles('s/a b.txt', 'two')).toEqual(found)
      expect(await fs.findFiles('s', 'nothing')).toEqual([])
      const { files } = await fs.searchFiles('s', '*.txt')
      expect(files.sort()).toEqual(['/home/daytona/s/a b.txt', '/home/daytona/s/sub/c.txt'])
      const replaced = await fs.replaceInFiles(['s/a b.txt', 's/missing'], 'two', '$&2')
      expect(replaced).toMatchObject([{ success: true }, { success: false, error: expect.any(String) }])
      expect((await fs.downloadFile('s/a b.txt')).toString()).toBe('one\r\n-e $&2.*\nthree')
      const bytes = [0xff, 0xc3, 0xbc, 0x00]
      await fs.uploadFile(Buffer.from(bytes), 's/bytes')
      await fs.setFilePermissions('s/bytes', { mode: '751' })
      await fs.replaceInFiles(['s/bytes'], 'ü', 'a')
      expect([...(await fs.downloadFile('s/bytes'))]).toEqual([0xff, 0x61, 0x00])
      expect(await fs.getFileDetails('s/bytes')).toMatchObject({ permissions: '0751' })
      expect(await rejectionOf(fs.findFiles('missing', 'x'))).toBeInstanceOf(DaytonaFileNotFoundError)
    }))

  it('are refused when a reply or a file would be too large', () =>
    withDaytonaSandbox(async ({ fs, process }) => {
      await process.executeCommand(
        'head -c 5000000 /dev/zero | tr "\\0" x > long; for i in 1 2; do cat long; echo; done > twice',
      )
      expect((await rejectionOf(fs.findFiles('.', 'x'))).message).toContain('larger than 8388608 bytes')
      const [grown] = await fs.replaceInFiles(['long'], 'x', 'long')
      expect(grown).toMatchObject({ success: false, error: expect.stringContaining('larger than 8388608') })
      const [large] = await fs.replaceInFiles(['twice'], 'x', '')
      expect(large).toMatchObject({ success: false, error: expect.stringContaining('8388608') })
      const [shrunk] = await fs.replaceInFiles(['long'], 'xx', 'y')
      expect(shrunk).toMatchObject({ success: true })
      expect((await fs.getFileDetails('long')).size).toBe(2_500_000)
    }))

  it('are not listed when a directory has more than 100,000', () =>
    withDaytonaSandbox(async ({ fs, process }) => {
      await process.executeCommand('mkdir many; cd many; seq 100001 | xargs touch')
      expect((await rejectionOf(fs.listFiles('many'))).message).toContain('more than 100000 entries')
    }))

  it('have signed addresses, for one path, one operation and their time', () =>
    withDaytonaSandbox(async (sandbox, { server, root }) => {
      const sent = await fetch(await sandbox.uploadUrl('a b'), {
        method: 'POST',
        headers: { 'content-type': 'application/octet-stream' },
        body: 'signed',
      })
      expect(sent.status).toBe(200)
      const url = await sandbox.downloadUrl('a b')
      const read = await fetch(url)
      expect(read.headers.get('content-disposition')).toContain('a%20b')
      expect(await read.text()).toBe('signed')
      expect((await fetch(url.replace('path=a+b', 'path=.profile'))).status).toBe(401)
      expect((await fetch(url.replace('/files/download', '/files/info'))).status).toBe(401)
      expect((await fetch(url.replace(/expires=\d+/, 'expires=0'))).status).toBe(401)
      await sandbox.rotateSigningKey()
      expect((await fetch(url)).status).toBe(401)
      expect((await fetch(await sandbox.downloadUrl('a b', 0))).status).toBe(200)
      const headers = { authorization: `Bearer ${server.key}` }
      const key = await (await fetch(`${server.url}/sandbox/${sandbox.id}/signing-key`, { headers })).json()
      expect(key).toMatch(/^[0-9a-f]{64}$/)
      expect(readFileSync(path.join(root, 'records', `${sandbox.id}.json`), 'utf8')).not.toContain(key)
    }))

  it('of this machine are not reached by links out of the sandbox', () =>
    withDaytonaSandbox(async ({ fs, process }) => {
      const directory = temporary('nacre-compat-secret-')
      writeFileSync(path.join(directory, 'file'), 'SECRET')
      await process.executeCommand(`ln -s '${directory}' out; ln -s '${directory}/file' secret`)
      for (const call of [
        () => fs.downloadFile('secret'),
        () => fs.downloadFile('out/file'),
        () => fs.listFiles('out'),
        () => fs.setFilePermissions('secret', { mode: '777' }),
        () => fs.moveFiles('out/file', 'moved'),
        () => fs.downloadFile(`../../..${directory}/file`),
      ])
        await rejectionOf(call())
      expect(await fs.findFiles('.', 'SECRET')).toEqual([])
      await fs.replaceInFiles(['secret', 'out/file'], 'SECRET', 'x')
      await fs.uploadFile(Buffer.from('x'), 'secret').catch(() => {})
      await fs.deleteFile('out/file').catch(() => {})
      expect(readFileSync(path.join(directory, 'file'), 'utf8')).toBe('SECRET')
    }))
})

describe('git', () => {
  const author = ['A Name', 'a@example.com'] as const

  it('keeps repositories with commits and branches', () =>
    withDaytonaSandbox(async ({ git, fs }) => {
      await git.init('repo', false, 'main')
      await fs.uploadFile(Buffer.from('1'), 'repo/a b')
      expect(await git.status('repo')).toMatchObject({
        currentBranch: 'main',
        branchPublished: false,
        fileStatus: [{ name: 'a b', staging: 'Untracked', worktree: 'Untracked' }],
      })
      await git.add('repo', ['.'])
      const hook = '#!/bin/bash\nprintf "branch %.0s" {1..150000}; exit 1\n'
      await fs.uploadFile(Buffer.from(hook), 'repo/.git/hooks/pre-commit')
      await fs.setFilePermissions('repo/.git/hooks/pre-commit', { mode: '755' })
      const refused = await rejectionOf(git.commit('repo', 'refused', ...author))
      expect((refused as Error).message.length).toBeLessThan(10_000)
      await fs.deleteFile('repo/.git/hooks/pre-commit')
      const { sha } = await git.commit('repo', 'the message', ...author)
      expect(sha).toMatch(/^[0-9a-f]{40}$/)
      await git.createBranch('repo', 'other')
      expect(await rejectionOf(git.createBranch('repo', 'other'))).toBeInstanceOf(DaytonaGitBranchExistsError)
      await git.checkoutBranch('repo', 'other')
      expect(await git.branches('repo')).toEqual({ branches: ['main', 'other'], current: 'other' })
      expect(await rejectionOf(git.checkoutBranch('repo', 'missing'))).toBeInstanceOf(
        DaytonaGitBranchNotFoundError,
      )
      await fs.moveFiles('repo/a b', 'repo/c')
      await git.add('repo', ['.'])
      expect((await git.status('repo')).fileStatus).toEqual([
        { name: 'c', staging: 'Renamed', worktree: 'Unmodified', extra: 'a b' },
      ])
      await git.restore('repo', ['.'], true, true)
      await git.reset('repo', 'hard')
      expect((await git.status('repo')).fileStatus).toEqual([])
      await git.checkoutBranch('repo', 'main')
      await git.deleteBranch('repo', 'other')
      await git.configureUser('B', 'b@example.com')
      expect(await git.getConfig('user.name')).toBe('B')
      await git.setConfig('core.editor', 'vi', 'local', 'repo')
      expect(await git.getConfig('core.editor', 'local', 'repo')).toBe('vi')
      expect(await git.getConfig('no.such', 'local', 'repo')).toBeUndefined()
      for (const where of ['missing', '/tmp'])
        expect(await rejectionOf(git.status(where))).toBeInstanceOf(DaytonaGitRepoNotFoundError)
    }))

  it('is not confused by what git prints to its standard error', () =>
    withDaytona(async ({ create }) => {
      const { git, fs } = await create({ envVars: { GIT_TRACE: '1' } })
      await git.init('repo', false, 'main')
      await fs.uploadFile(Buffer.from('1'), 'repo/a')
      expect((await git.status('repo')).fileStatus).toMatchObject([{ name: 'a', staging: 'Untracked' }])
      await git.add('repo', ['.'])
      const { sha } = await git.commit('repo', 'the message', ...author)
      expect(sha).toMatch(/^[0-9a-f]{40}$/)
      expect(await git.branches('repo')).toEqual({ branches: ['main'], current: 'main' })
    }))

  it('clones, pushes and pulls', () =>
    withDaytonaSandbox(async ({ git, fs, process }) => {
      await git.init('origin', true, 'main')
      await git.clone('/home/daytona/origin', 'one')
      await fs.uploadFile(Buffer.from('1'), 'one/a')
      await git.add('one', ['a'])
      await git.commit('one', 'first', ...author)
      await git.push('one', undefined, undefined, 'HEAD:main')
      await git.clone('/home/daytona/origin', 'two', 'main')
      await fs.uploadFile(Buffer.from('2'), 'one/a')
      await git.add('one', ['a'])
      const { sha } = await git.commit('one', 'second', ...author)
      await git.push('one', undefined, undefined, 'HEAD:main')
      await git.pull('two')
      expect((await fs.downloadFile('two/a')).toString()).toBe('2')
      expect(await git.status('two')).toMatchObject({
        currentBranch: 'main',
        branchPublished: true,
        behind: 0,
      })
      await git.clone('/home/daytona/origin', 'three', undefined, sha)
      expect((await git.status('three')).detached).toBe(true)
      await git.remoteAdd('two', 'copy', '/home/daytona/one')
      expect(await git.remoteGet('two', 'copy')).toBe('/home/daytona/one')
      const refused = await rejectionOf(git.clone('/home/daytona/missing', 'four'))
      expect(refused).toBeInstanceOf(DaytonaGitRepoNotFoundError)
      // The password is not in the arguments of any process.
      await fs.uploadFile(Buffer.from(SERVER), 'server.cjs')
      await process.createSession('server')
      const run = { command: 'exec node server.cjs', runAsync: true }
      const { cmdId } = await process.executeSessionCommand('server', run)
      let port = ''
      for (; port === ''; ) port = (await process.getSessionCommandLogs('server', cmdId)).stdout ?? ''
      const url = `http://127.0.0.1:${port.trim()}/repository.git`
      const failed = await rejectionOf(git.clone(url, 'five', undefined, undefined, 'user', 'pass'))
      expect(failed).toBeInstanceOf(DaytonaGitAuthFailedError)
      const { stdout } = await process.getSessionCommandLogs('server', cmdId)
      expect(stdout).toContain(`Basic ${Buffer.from('user:pass').toString('base64')}`)
    }))
})

/** Wants credentials, prints them, and accepts none. */
const SERVER = `
const server = require('node:http').createServer((request, response) => {
  if (request.headers.authorization) console.log(request.headers.authorization)
  response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
`
