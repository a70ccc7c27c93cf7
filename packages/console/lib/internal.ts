/** What `@nacre/server` uses. No program of a user may import it: anything here may change in any release. */

export { consolePages } from './pages.js'
export { listRecordings, readRecording } from './recordings.js'
