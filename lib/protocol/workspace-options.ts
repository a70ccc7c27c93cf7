/** The options of a workspace's calls. */
import type { WorkspaceChangesOptions } from '../public/index.js'
import { table } from '../schema/kind.js'
import { workspacePaths } from '../schema/workspace.js'

/** Of `workspace.changes`. */
export const workspaceChangesOptions = table<WorkspaceChangesOptions>()({ paths: workspacePaths })
