//! The types of the boundary to JavaScript. The build writes them in TypeScript to `lib/boundary`.

mod event;
mod exec;
mod feed;
mod file;
mod job;
mod process;
mod sandbox;
mod workspace;

pub use event::{NativeEvent, NativeTracedRequest};
pub use exec::{NativeBlocker, NativeCommandUsage, NativeExecExtras, NativeResult, NativeRunning};
pub use feed::{NativeFeed, NativeFeedEvent};
pub use file::{
    NativeFile, NativeFileAction, NativeFileChange, NativeFileList, NativeFileRead, NativeFileWrite, NativeOpenFile,
};
pub use job::{NativeJob, NativeJobOutput, NativeJobStart, NativeJobStatus};
pub use process::{
    NativeConditions, NativeDetachedProcess, NativeFirst, NativeKilledBy, NativeLimits, NativeLineQuery, NativeLog,
    NativeLogLines, NativeLogPiece, NativeMessages, NativePort, NativeProcess, NativeProcessRef, NativeProcessStart,
    NativePty, NativeStats, NativeTerminal, NativeWaiting, NativeWantedLine,
};
pub use sandbox::{
    NativeCapabilities, NativeConfig, NativeDenial, NativeFailure, NativeIsolation, NativeQuestion, NativeRequest,
    NativeSecret, NativeSession, NativeTiers, NativeUser,
};
pub use workspace::{
    NativeArchive, NativeBlame, NativeChanges, NativeCommit, NativeConflictHunk, NativeDriverRun, NativeHunk,
    NativeHunkChoice, NativeMergeConflict, NativeMerged, NativeNamed, NativePoint, NativeResumed, NativeReview,
    NativeReviewed, NativeRollback, NativeSkipped, NativeSuspended, NativeUsage, NativeWithheld, NativeWorkspaceConfig,
    NativeWorkspaceOffer,
};
