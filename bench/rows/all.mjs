/** The rows by id, in the order of the report. */
import * as alive from './alive.mjs'
import * as background from './background.mjs'
import * as busy from './busy.mjs'
import * as capture from './capture.mjs'
import * as commands from './commands.mjs'
import * as endurance from './endurance.mjs'
import * as exit from './exit.mjs'
import * as firstByte from './first-byte.mjs'
import * as http from './http.mjs'
import * as idle from './idle.mjs'
import * as isolation from './isolation.mjs'
import * as jobs from './jobs.mjs'
import * as kill from './kill.mjs'
import * as latency from './latency.mjs'
import * as lines from './lines.mjs'
import * as messages from './messages.mjs'
import * as paced from './paced.mjs'
import * as parallel from './parallel.mjs'
import * as sessions from './sessions.mjs'
import * as stall from './stall.mjs'
import * as start from './start.mjs'
import * as stream from './stream.mjs'
import * as workspace from './workspace.mjs'

export const rows = {
  latency,
  paced,
  capture,
  stream,
  'first-byte': firstByte,
  lines,
  messages,
  start,
  idle,
  exit,
  endurance,
  commands,
  background,
  alive,
  busy,
  kill,
  parallel,
  sessions,
  jobs,
  http,
  stall,
  isolation,
  workspace,
}
