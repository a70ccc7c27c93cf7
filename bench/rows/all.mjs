/** The rows by id, in the order of the report. */
import * as capture from './capture.mjs'
import * as endurance from './endurance.mjs'
import * as exit from './exit.mjs'
import * as idle from './idle.mjs'
import * as latency from './latency.mjs'
import * as parallel from './parallel.mjs'
import * as stall from './stall.mjs'
import * as start from './start.mjs'

export const rows = { latency, capture, start, idle, exit, endurance, parallel, stall }
