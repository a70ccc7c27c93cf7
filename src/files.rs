//! The native class's methods for files.

use crate::file_values::{LIST_BATCH, batch, change, file};
use crate::open_files::{Open, OpenFiles};
use crate::piece::Piece;
use crate::sandbox::NativeSandbox;
use crate::settle::Pending;
use crate::types::{
    NativeFile, NativeFileAction, NativeFileChange, NativeFileList, NativeFileRead, NativeFileWrite, NativeOpenFile,
};
use nacre_containment::lock::Lock;
use nacre_core::error::{Code, Error};
use nacre_core::files::{Access, Attributes, FileCall, Writer};
use nacre_core::runtime;
use napi::bindgen_prelude::{Result, ToNapiValue, Uint8Array};
use napi_derive::napi;
use std::collections::HashMap;
use std::sync::Arc;

#[napi]
impl NativeSandbox {
    /// Describes a file, if it exists. Here and below, the path cannot leave `root`.
    #[napi(catch_unwind)]
    pub fn file_stat(
        &self,
        id: u32,
        session_id: String,
        path: Uint8Array,
        follow: bool,
        root: Option<String>,
    ) -> Result<Pending<Option<NativeFile>>> {
        self.on_path(
            id,
            (&session_id, root, path),
            move |access, path| async move { access.stat(path, follow).await },
            |found, _| found.flatten().map(file),
        )
    }

    /// Creates a directory, or renames, copies or removes a file, or sets its permissions.
    #[napi(catch_unwind)]
    pub fn file_change(&self, id: u32, session_id: String, action: NativeFileAction) -> Result<Pending<()>> {
        let root = action.root;
        let (path, to) = (action.path.to_vec(), action.to.map(|to| to.to_vec()).unwrap_or_default());
        let recursive = action.recursive;
        let call = match action.kind.as_str() {
            "mkdir" => FileCall::MakeDirectory { path },
            "chmod" => FileCall::SetMode { path, mode: action.mode.unwrap_or_default() },
            "rename" => FileCall::Rename { from: path, to },
            "copy" => FileCall::Copy { from: path, to, recursive },
            _ => FileCall::Remove { path, recursive },
        };
        self.on_files(
            id,
            (&session_id, root),
            move |access| {
                let call = call.clone();
                async move { access.change(call).await }
            },
            |_, _| (),
        )
    }

    /// Lists a directory of at most `most` entries.
    #[napi(catch_unwind)]
    pub fn file_list(
        &self,
        id: u32,
        session_id: String,
        path: Uint8Array,
        depth: u32,
        most: u32,
        root: Option<String>,
    ) -> Result<Pending<Option<NativeFileList>>> {
        self.on_path(
            id,
            (&session_id, root, path),
            move |access, path| async move { access.list(path, depth, most as usize).await },
            |found, open| {
                let rest = Lock::new(found?.into_iter());
                let files = batch(&rest);
                let handle = (files.len() == LIST_BATCH).then(|| open.add(Open::List(Arc::new(rest))));
                Some(NativeFileList { files, handle })
            },
        )
    }

    /// Opens a file and reads its beginning. Refuses more than `max_size` bytes.
    #[napi(catch_unwind)]
    pub fn file_read(
        &self,
        id: u32,
        session_id: String,
        request: NativeFileRead,
    ) -> Result<Pending<Option<NativeOpenFile>>> {
        let NativeFileRead { path, position, length, max_size, root } = request;
        self.on_path(
            id,
            (&session_id, root, path),
            move |access, path| async move {
                let Some(reader) = access.read(path).await? else { return Ok(None) };
                if let Some(most) = max_size {
                    reader.check_size(most as u64)?;
                }
                let (version, bytes) = reader.read_first(position as u64, length as usize).await?;
                Ok(Some((reader, version, bytes)))
            },
            move |found, open| {
                let (reader, version, bytes) = found?;
                let opened = NativeFile { version: Some(version), ..file(reader.opened.clone()) };
                let handle = (bytes.len() == length as usize).then(|| open.add(Open::Reader(Arc::new(reader))));
                Some(NativeOpenFile { file: opened, data: Piece(bytes), handle })
            },
        )
    }

    /// Reads a part of an open file, shorter than `length` at the end of the file.
    #[napi(catch_unwind, ts_return_type = "Pending<Buffer | null>")]
    pub fn file_read_at(&self, id: u32, handle: u32, position: f64, length: u32) -> Result<Pending<Option<Piece>>> {
        self.on_open(id, handle, move |open| async move {
            let Open::Reader(reader) = open else { return Err(misused()) };
            Ok(Piece(reader.read(position as u64, length as usize).await?))
        })
    }

    /// The extended attributes of a regular file whose names begin with `prefix`.
    #[napi(catch_unwind)]
    pub fn file_attributes(
        &self,
        id: u32,
        session_id: String,
        path: Uint8Array,
        prefix: String,
    ) -> Result<Pending<Option<HashMap<String, String>>>> {
        self.on_path(
            id,
            (&session_id, None, path),
            move |access, path| {
                let prefix = prefix.clone();
                async move {
                    let Some(reader) = access.read(path).await? else { return Ok(None) };
                    reader.attributes(prefix).await.map(Some)
                }
            },
            |attributes, _| attributes,
        )
    }

    /// Writes a whole file. Fails if nothing was changed.
    #[napi(catch_unwind)]
    pub fn file_write(
        &self,
        id: u32,
        session_id: String,
        request: NativeFileWrite,
        data: Uint8Array,
    ) -> Result<Pending<Option<NativeFile>>> {
        let NativeFileWrite { path, mode, append, attributes, root } = request;
        let data = data.to_vec();
        self.on_path(
            id,
            (&session_id, root, path),
            move |access, path| {
                let (data, attributes) = (data.clone(), attributes.clone());
                async move {
                    let Some(writer) = writer(&access, path, (mode, append), attributes).await? else {
                        return Ok(None);
                    };
                    writer.write_all(data).await.map(Some)
                }
            },
            |written, _| written.map(file),
        )
    }

    /// Opens a file for writing in pieces. Returns a handle for fileWritePiece, fileCommit and fileRevert.
    #[napi(catch_unwind)]
    pub fn file_write_open(
        &self,
        id: u32,
        session_id: String,
        request: NativeFileWrite,
    ) -> Result<Pending<Option<u32>>> {
        let NativeFileWrite { path, mode, append, attributes, root } = request;
        self.on_path(
            id,
            (&session_id, root, path),
            move |access, path| {
                let attributes = attributes.clone();
                async move { writer(&access, path, (mode, append), attributes).await }
            },
            |writer, open| writer.map(|writer| open.add(Open::Writer(Arc::new(writer)))),
        )
    }

    /// Writes a piece.
    #[napi(catch_unwind)]
    pub fn file_write_piece(&self, id: u32, handle: u32, data: Uint8Array) -> Result<Pending<Option<()>>> {
        self.on_open(id, handle, move |open| {
            let piece = match &open {
                Open::Writer(writer) => writer.piece(&data),
                _ => Vec::new(),
            };
            async move {
                let Open::Writer(writer) = open else { return Err(misused()) };
                writer.write(piece).await
            }
        })
    }

    /// Commits a write: the file now has its content.
    #[napi(catch_unwind)]
    pub fn file_commit(&self, id: u32, handle: u32) -> Result<Pending<Option<NativeFile>>> {
        self.on_open(id, handle, move |open| async move {
            let Open::Writer(writer) = open else { return Err(misused()) };
            writer.commit().await.map(file)
        })
    }

    /// Reverts a write. Ends once nothing of it is left.
    #[napi(catch_unwind)]
    pub fn file_revert(&self, id: u32, handle: u32) -> Result<Pending<Option<()>>> {
        self.on_open(id, handle, move |open| async move {
            let Open::Writer(writer) = open else { return Err(misused()) };
            writer.revert().await;
            Ok(())
        })
    }

    /// Starts watching. Returns a handle for fileWatchNext.
    #[napi(catch_unwind)]
    pub fn file_watch(
        &self,
        id: u32,
        session_id: String,
        path: Uint8Array,
        recursive: bool,
    ) -> Result<Pending<Option<u32>>> {
        self.on_path(
            id,
            (&session_id, None, path),
            move |access, path| async move { access.watch(path, recursive).await },
            |watcher, open| watcher.map(|watcher| open.add(Open::Watcher(Arc::new(watcher)))),
        )
    }

    /// The next files of a list: none at the end.
    #[napi(catch_unwind)]
    pub fn file_list_next(&self, id: u32, handle: u32) -> Result<Pending<Option<Vec<NativeFile>>>> {
        self.on_open(id, handle, move |open| async move {
            let Open::List(rest) = open else { return Err(misused()) };
            Ok(batch(&rest))
        })
    }

    /// The next changes that a watch sees.
    #[napi(catch_unwind)]
    pub fn file_watch_next(&self, id: u32, handle: u32) -> Result<Pending<Option<Vec<NativeFileChange>>>> {
        self.on_open(id, handle, move |open| async move {
            let Open::Watcher(watcher) = open else { return Err(misused()) };
            Ok(watcher.next().await?.into_iter().map(change).collect())
        })
    }

    /// Closes something that a call has opened. A write that was not committed is reverted.
    #[napi(catch_unwind)]
    pub fn file_close(&self, handle: u32) {
        self.open_files.close(handle);
    }
}

impl NativeSandbox {
    /// Makes a call on one path, like `on_files`.
    fn on_path<T: Send + 'static, V: ToNapiValue + Send + 'static, F, R>(
        &self,
        id: u32,
        (session_id, root, path): (&str, Option<String>, Uint8Array),
        call: F,
        show: impl FnOnce(Option<T>, &OpenFiles) -> V + Send + 'static,
    ) -> Result<Pending<V>>
    where
        F: Fn(Access, Vec<u8>) -> R + Send + 'static,
        R: Future<Output = std::result::Result<Option<T>, Error>> + Send + 'static,
    {
        let path = path.to_vec();
        self.on_files(id, (session_id, root), move |access| call(access, path.clone()), show)
    }

    /// Makes an abandonable call on the files of a session. With a root, no path leaves it. `show` gets none if it was
    /// abandoned.
    fn on_files<T: Send + 'static, V: ToNapiValue + Send + 'static, F, R>(
        &self,
        id: u32,
        (session_id, root): (&str, Option<String>),
        call: F,
        show: impl FnOnce(Option<T>, &OpenFiles) -> V + Send + 'static,
    ) -> Result<Pending<V>>
    where
        F: Fn(Access) -> R + Send + 'static,
        R: Future<Output = std::result::Result<Option<T>, Error>> + Send + 'static,
    {
        runtime::handle()?;
        let (open, wait) = (Arc::clone(&self.open_files), self.waits.open(id));
        let calling = self.sandbox.files(session_id, move |access| {
            call(match &root {
                Some(root) => access.below(root.into()),
                None => access,
            })
        });
        self.settle(id, async move { Ok(show(wait.run(calling).await.transpose()?, &open)) })
    }

    /// Uses something that a call has opened. Can be abandoned.
    fn on_open<T, R>(&self, id: u32, handle: u32, act: impl FnOnce(Open) -> R) -> Result<Pending<Option<T>>>
    where
        T: ToNapiValue + Send + 'static,
        R: Future<Output = std::result::Result<T, Error>> + Send + 'static,
    {
        match self.open_files.get(handle) {
            Ok(open) => {
                let (acting, wait) = (act(open), self.waits.open(id));
                self.settle(id, async move { wait.run(acting).await.transpose() })
            }
            Err(error) => Ok(self.refuse(id, error)),
        }
    }
}

/// Opens a file for writing, with its attributes.
async fn writer(
    access: &Access,
    path: Vec<u8>,
    (mode, append): (Option<u32>, bool),
    attributes: Option<Attributes>,
) -> std::result::Result<Option<Writer>, Error> {
    let Some(writer) = access.write(path, mode, append).await? else { return Ok(None) };
    if let Some(attributes) = attributes
        && let Err(error) = writer.set_attributes(attributes).await
    {
        writer.revert().await;
        return Err(error);
    }
    Ok(Some(writer))
}

fn misused() -> Error {
    Error::new(Code::EngineError, "the handle is of another kind")
}
