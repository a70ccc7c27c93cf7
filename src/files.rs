//! The native class's methods for files.

use crate::emitter::Settle;
use crate::file_values::{LIST_BATCH, batch, change, file};
use crate::open_files::{Open, OpenFiles};
use crate::piece::Piece;
use crate::sandbox::NativeSandbox;
use crate::types::{NativeEvent, NativeFile, NativeFileAction, NativeFileRead, NativeFileWrite};
use nacre_core::error::{Code, Error};
use nacre_core::files::{Access, Attributes, FileCall, Writer};
use nacre_core::runtime;
use napi::bindgen_prelude::{Result, Uint8Array};
use napi_derive::napi;
use std::sync::{Arc, Mutex};

type Answer = std::result::Result<NativeEvent, Error>;

#[napi]
impl NativeSandbox {
    /// Describes a file. Ends with `done`, and `file` if it exists. Here and below, the path cannot leave `root`.
    #[napi(catch_unwind)]
    pub fn file_stat(
        &self,
        id: u32,
        session_id: String,
        path: Uint8Array,
        follow: bool,
        root: Option<String>,
    ) -> Result<()> {
        self.on_path(
            id,
            (&session_id, root, path),
            move |access, path| async move { access.stat(path, follow).await },
            |found, _| NativeEvent { file: found.map(file), ..NativeEvent::default() },
        )
    }

    /// Creates a directory, or renames, copies or removes a file.
    #[napi(catch_unwind)]
    pub fn file_change(&self, id: u32, session_id: String, action: NativeFileAction) -> Result<()> {
        let root = action.root;
        let (path, to) = (action.path.to_vec(), action.to.map(|to| to.to_vec()).unwrap_or_default());
        let recursive = action.recursive;
        let call = match action.kind.as_str() {
            "mkdir" => FileCall::MakeDirectory { path },
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
            |(), _| NativeEvent::default(),
        )
    }

    /// Lists a directory of at most `most` entries. Ends with `done` and `files`, and a handle for fileNext if there may be
    /// more.
    #[napi(catch_unwind)]
    pub fn file_list(
        &self,
        id: u32,
        session_id: String,
        path: Uint8Array,
        depth: u32,
        most: u32,
        root: Option<String>,
    ) -> Result<()> {
        self.on_path(
            id,
            (&session_id, root, path),
            move |access, path| async move { access.list(path, depth, most as usize).await },
            |found, open| {
                let rest = Mutex::new(found.into_iter());
                let files = batch(&rest);
                let handle = (files.len() == LIST_BATCH).then(|| open.add(Open::List(Arc::new(rest))));
                NativeEvent { files: Some(files), handle, ..NativeEvent::default() }
            },
        )
    }

    /// Opens a file and reads its beginning; without a handle, that was the whole file. Refuses more than `max_size`
    /// bytes. Ends with `done`, `file` and its first `data`, and a handle for fileReadAt if there may be more.
    #[napi(catch_unwind)]
    pub fn file_read(&self, id: u32, session_id: String, request: NativeFileRead) -> Result<()> {
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
            move |(reader, version, bytes), open| {
                let opened = NativeFile { version: Some(version), ..file(reader.opened.clone()) };
                let handle = (bytes.len() == length as usize).then(|| open.add(Open::Reader(Arc::new(reader))));
                NativeEvent { file: Some(opened), data: Some(Piece(bytes)), handle, ..NativeEvent::default() }
            },
        )
    }

    /// Reads a part of an open file. Ends with `done` and `data`, shorter than `length` at the end of the file.
    #[napi(catch_unwind)]
    pub fn file_read_at(&self, id: u32, handle: u32, position: f64, length: u32) -> Result<()> {
        self.on_open(id, handle, move |open| async move {
            let Open::Reader(reader) = open else { return Err(misused()) };
            let bytes = reader.read(position as u64, length as usize).await?;
            Ok(NativeEvent { data: Some(Piece(bytes)), ..NativeEvent::default() })
        })
    }

    /// Ends with `done` and `attributes`: the extended attributes of a regular file whose names begin with `prefix`.
    #[napi(catch_unwind)]
    pub fn file_attributes(&self, id: u32, session_id: String, path: Uint8Array, prefix: String) -> Result<()> {
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
            |attributes, _| NativeEvent { attributes: Some(attributes), ..NativeEvent::default() },
        )
    }

    /// Writes a whole file. Ends with `done` and `file`; with an error if nothing was changed.
    #[napi(catch_unwind)]
    pub fn file_write(&self, id: u32, session_id: String, request: NativeFileWrite, data: Uint8Array) -> Result<()> {
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
            |written, _| NativeEvent { file: Some(file(written)), ..NativeEvent::default() },
        )
    }

    /// Opens a file for writing in pieces. Ends with `done` and a handle for fileWritePiece, fileCommit and fileRevert.
    #[napi(catch_unwind)]
    pub fn file_write_open(&self, id: u32, session_id: String, request: NativeFileWrite) -> Result<()> {
        let NativeFileWrite { path, mode, append, attributes, root } = request;
        self.on_path(
            id,
            (&session_id, root, path),
            move |access, path| {
                let attributes = attributes.clone();
                async move { writer(&access, path, (mode, append), attributes).await }
            },
            |writer, open| {
                let handle = open.add(Open::Writer(Arc::new(writer)));
                NativeEvent { handle: Some(handle), ..NativeEvent::default() }
            },
        )
    }

    /// Writes a piece.
    #[napi(catch_unwind)]
    pub fn file_write_piece(&self, id: u32, handle: u32, data: Uint8Array) -> Result<()> {
        self.on_open(id, handle, move |open| {
            let piece = match &open {
                Open::Writer(writer) => writer.piece(&data),
                _ => Vec::new(),
            };
            async move {
                let Open::Writer(writer) = open else { return Err(misused()) };
                writer.write(piece).await.map(|()| NativeEvent::default())
            }
        })
    }

    /// Commits a write: the file now has its content. Ends with `done` and `file`.
    #[napi(catch_unwind)]
    pub fn file_commit(&self, id: u32, handle: u32) -> Result<()> {
        self.on_open(id, handle, move |open| async move {
            let Open::Writer(writer) = open else { return Err(misused()) };
            let written = writer.commit().await?;
            Ok(NativeEvent { file: Some(file(written)), ..NativeEvent::default() })
        })
    }

    /// Reverts a write. Ends once nothing of it is left.
    #[napi(catch_unwind)]
    pub fn file_revert(&self, id: u32, handle: u32) -> Result<()> {
        self.on_open(id, handle, move |open| async move {
            let Open::Writer(writer) = open else { return Err(misused()) };
            writer.revert().await;
            Ok(NativeEvent::default())
        })
    }

    /// Starts watching. Ends with `done` and a handle for fileNext.
    #[napi(catch_unwind)]
    pub fn file_watch(&self, id: u32, session_id: String, path: Uint8Array, recursive: bool) -> Result<()> {
        self.on_path(
            id,
            (&session_id, None, path),
            move |access, path| async move { access.watch(path, recursive).await },
            |watcher, open| {
                let handle = open.add(Open::Watcher(Arc::new(watcher)));
                NativeEvent { handle: Some(handle), ..NativeEvent::default() }
            },
        )
    }

    /// Ends with `done`, and the next `files` of a list or the next `changes` of a watch: none at the end.
    #[napi(catch_unwind)]
    pub fn file_next(&self, id: u32, handle: u32) -> Result<()> {
        self.on_open(id, handle, move |open| async move {
            match open {
                Open::List(rest) => Ok(NativeEvent { files: Some(batch(&rest)), ..NativeEvent::default() }),
                Open::Watcher(watcher) => {
                    let changes = watcher.next().await?.into_iter().map(change).collect();
                    Ok(NativeEvent { changes: Some(changes), ..NativeEvent::default() })
                }
                Open::Reader(_) | Open::Writer(_) => Err(misused()),
            }
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
    fn on_path<T: Send + 'static, F, R>(
        &self,
        id: u32,
        (session_id, root, path): (&str, Option<String>, Uint8Array),
        call: F,
        show: impl FnOnce(T, &OpenFiles) -> NativeEvent + Send + 'static,
    ) -> Result<()>
    where
        F: Fn(Access, Vec<u8>) -> R + Send + 'static,
        R: Future<Output = std::result::Result<Option<T>, Error>> + Send + 'static,
    {
        let path = path.to_vec();
        self.on_files(id, (session_id, root), move |access| call(access, path.clone()), show)
    }

    /// Makes an abandonable call on the files of a session. With a root, no path leaves it.
    fn on_files<T: Send + 'static, F, R>(
        &self,
        id: u32,
        (session_id, root): (&str, Option<String>),
        call: F,
        show: impl FnOnce(T, &OpenFiles) -> NativeEvent + Send + 'static,
    ) -> Result<()>
    where
        F: Fn(Access) -> R + Send + 'static,
        R: Future<Output = std::result::Result<Option<T>, Error>> + Send + 'static,
    {
        runtime::handle()?;
        let (sandbox, emitter) = self.parts();
        let (open, wait) = (Arc::clone(&self.open_files), self.waits.open(id));
        let settle = Settle::new(id, &emitter);
        let calling = sandbox.files(session_id, move |access| {
            call(match &root {
                Some(root) => access.below(root.into()),
                None => access,
            })
        });
        Ok(runtime::spawn(async move {
            let done = wait.run(calling).await;
            settle.answer(done.map_or_else(|| Ok(NativeEvent::default()), |done| done.map(|done| show(done, &open))));
        })?)
    }

    /// Uses something that a call has opened.
    fn on_open<R>(&self, id: u32, handle: u32, act: impl FnOnce(Open) -> R) -> Result<()>
    where
        R: Future<Output = Answer> + Send + 'static,
    {
        let (_, emitter) = self.parts();
        match self.open_files.get(handle) {
            Ok(open) => {
                let (acting, wait, settle) = (act(open), self.waits.open(id), Settle::new(id, &emitter));
                Ok(runtime::spawn(async move {
                    let done = wait.run(acting).await;
                    settle.answer(done.unwrap_or_else(|| Ok(NativeEvent::default())));
                })?)
            }
            Err(error) => {
                emitter.settle(id, Err(error));
                Ok(())
            }
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
