/** The resources of this machine. A sandbox has no others. */
import { statfsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import os from 'node:os'

/** The size of the file system in bytes. */
export function diskSize(directory: string): number {
  const { blocks, bsize } = statfsSync(directory)
  return blocks * bsize
}

export async function measure(directory: string) {
  const disk = await statfs(directory)
  const cpus = os.availableParallelism()
  return {
    ts: Math.floor(Date.now() / 1000),
    cpu_count: cpus,
    cpu_used_pct: Math.min(100, Math.round((100 * (os.loadavg()[0] ?? 0)) / cpus)),
    mem_total: os.totalmem(),
    mem_used: os.totalmem() - os.freemem(),
    disk_total: disk.blocks * disk.bsize,
    disk_used: (disk.blocks - disk.bfree) * disk.bsize,
  }
}

/** The same in the words of both APIs. */
export function metrics(now: Awaited<ReturnType<typeof measure>>) {
  return {
    timestamp: new Date(now.ts * 1000).toISOString(),
    timestampUnix: now.ts,
    cpuCount: now.cpu_count,
    cpuUsedPct: now.cpu_used_pct,
    memUsed: now.mem_used,
    memTotal: now.mem_total,
    memCache: 0,
    diskUsed: now.disk_used,
    diskTotal: now.disk_total,
  }
}
