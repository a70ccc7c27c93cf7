use super::*;
use crate::layers::{self, Layers, Number};
use crate::testing::{self, Random, Workspace, differing, open, snapshot, write};
use rustix::fs::{OFlags, XattrFlags, setxattr};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The layers of a workspace, and its real directory.
struct Store {
    place: OwnedFd,
    base: OwnedFd,
    layers: Layers,
}

impl Store {
    fn of(workspace: &Workspace) -> Self {
        let path = workspace.directory.path().join("place");
        fs::create_dir(&path).unwrap();
        let place = rustix::fs::open(&path, OFlags::RDONLY, Mode::empty()).unwrap();
        let layers = Layers::at(place.try_clone().unwrap()).unwrap();
        Self { place, base: open(&workspace.path()), layers }
    }

    /// Mounts a new layer above these, and adds it.
    fn mount(&self, workspace: &Workspace, stack: &mut Vec<Number>) -> OwnedFd {
        let below = layers::top(&self.place, stack, &Tree::new(self.base.try_clone().unwrap())).unwrap();
        stack.push(self.layers.create(&below).unwrap());
        workspace.mount_stack(&self.place, stack, &self.base)
    }

    /// How many directories the kernel has renamed without their content.
    fn redirects(&self, stack: &[Number]) -> usize {
        let mut found = 0;
        for layer in layers::trees(&self.place, stack).unwrap() {
            let mut pending = vec![Vec::new()];
            while let Some(path) = pending.pop() {
                let Some(directory) = layer.directory(&path).unwrap() else { continue };
                let metadata = Metadata::with_marks(&directory, b".").unwrap();
                found += usize::from(metadata.attribute(REDIRECT).is_some());
                pending.extend(names(&directory).unwrap().iter().map(|name| join(&path, name)));
            }
        }
        found
    }

    /// Merges neighbours, the oldest first.
    fn merge(&self, workspace: &Workspace, of: &[Number]) -> Result<Number> {
        let merged = self.layers.begin().unwrap();
        let (from, to) = (layers::trees(&self.place, of).unwrap(), layers::tree(&self.place, merged).unwrap());
        merge(&from, &to, workspace.mounter.marks(), &|| Ok(())).map(|_| merged)
    }
}

/// Changes something below a directory. What cannot be done is left out.
fn change(random: &mut Random, root: &Path) {
    let directory = root.join(random.below(7).to_string());
    let inner = directory.join("x");
    let parent = if random.below(3) == 0 { &directory } else { &inner };
    let file = parent.join(random.below(6).to_string());
    let other = root.join(random.below(5).to_string()).join("x").join(random.below(6).to_string());
    let content = random.below(1000).to_string();
    let at = |path: &PathBuf| std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let _ = match random.below(20) {
        0..=3 => fs::create_dir_all(parent).and_then(|()| fs::write(&file, content)),
        4 => fs::remove_file(&file),
        5 => fs::remove_dir_all(&directory),
        6 => fs::remove_dir_all(&inner),
        7 => fs::remove_dir_all(&inner).and_then(|()| fs::write(&inner, "a file now")),
        8 => fs::remove_file(&inner).and_then(|()| fs::create_dir(&inner)),
        9 => fs::remove_dir_all(&directory).and_then(|()| fs::create_dir_all(&inner)),
        10 => fs::set_permissions(&file, PermissionsExt::from_mode(0o600 | random.below(64) as u32)),
        11 => fs::set_permissions(&inner, PermissionsExt::from_mode(0o700 | random.below(64) as u32)),
        12 => fs::rename(&file, &other),
        16 => fs::rename(&directory, root.join(random.below(7).to_string())),
        17 => fs::rename(&inner, root.join(random.below(7).to_string()).join("y")),
        18 => fs::rename(directory.join("y"), &inner),
        13 => fs::hard_link(&file, &other),
        14 => std::os::unix::fs::symlink(content, &file),
        _ => setxattr(at(&file), "user.note", content.as_bytes(), XattrFlags::empty()).map_err(Into::into),
    };
}

#[test]
fn merged_layers_show_the_same_as_before() {
    testing::in_namespaces("merge::tests::merged_layers_show_the_same_as_before", |first| {
        let mut renamed = 0;
        let seeds = testing::seeds(3);
        let count = seeds.clone().count();
        for seed in seeds {
            let workspace = first.another();
            let mut random = Random(seed);
            for number in 0..4 {
                fs::create_dir_all(workspace.path().join(format!("{number}/x"))).unwrap();
                (0..5).for_each(|file| write(workspace.path().join(format!("{number}/x/{file}")), "real"));
            }
            let store = Store::of(&workspace);
            let mut stack = Vec::new();
            let mut before = None;
            for _ in 0..12 {
                let merged = store.mount(&workspace, &mut stack);
                (0..40).for_each(|_| change(&mut random, &workspace.path()));
                before = Some(snapshot(&merged));
                drop(merged);
                workspace.unmount();
            }
            let before = before.unwrap();
            renamed += store.redirects(&stack);
            // Any neighbours, also all, and merged ones again.
            let mut merged_stack = stack.clone();
            for _ in 0..3 {
                let from = random.below(merged_stack.len());
                let to = from + random.below(merged_stack.len() - from) + 1;
                let merged = store.merge(&workspace, &merged_stack[from..to]).unwrap();
                merged_stack.splice(from..to, [merged]);
                let mut above = merged_stack.clone();
                let mount = store.mount(&workspace, &mut above);
                assert_eq!(differing(&before, &snapshot(&mount)), [""; 0], "seed {seed}, {from} to {to}");
                drop(mount);
                workspace.unmount();
            }
            // What is done later has the same effect above both.
            let mut after = Vec::new();
            for mut stack in [stack, merged_stack] {
                let mount = store.mount(&workspace, &mut stack);
                let mut later = Random(seed + 100);
                (0..30).for_each(|_| change(&mut later, &workspace.path()));
                after.push(snapshot(&mount).into_iter().map(|(path, seen)| (path, (seen.mode, seen.content))));
                drop(mount);
                workspace.unmount();
            }
            let (merged, plain) = (after.pop().unwrap(), after.pop().unwrap());
            assert!(plain.eq(merged), "seed {seed}");
        }
        // Without root, the kernel renames no real directory.
        assert_eq!(renamed > 2 * count, first.mounter.marks() == "trusted");
    });
}

#[test]
fn links_owners_and_devices_are_kept() {
    testing::in_namespaces("merge::tests::links_owners_and_devices_are_kept", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        write(at("gone"), "real");
        fs::create_dir_all(at("old/deep")).unwrap();
        write(at("old/deep/file"), "real");
        let store = Store::of(&workspace);
        let mut stack = Vec::new();
        for script in [
            "rm gone; echo 1 > a; ln a b; mkdir new; mkfifo new/fifo; rm -r old; mkdir old; echo > old/later; truncate -s 1M sparse",
            "chmod 1750 new; echo 2 > old/file; rm old/later a; chmod 711 .; touch -d @7 b",
        ] {
            let mount = store.mount(&workspace, &mut stack);
            let done = Command::new("sh").args(["-ec", script]).current_dir(workspace.path()).status().unwrap();
            assert!(done.success());
            drop(mount);
            workspace.unmount();
        }
        let mut merged = vec![store.merge(&workspace, &stack).unwrap()];
        let file = |name: &str| fs::metadata(workspace.directory.path().join(name)).unwrap();
        let (one, two) =
            (file(&format!("place/layer-{}/upper/b", stack[1])), file(&format!("place/layer-{}/upper/b", merged[0])));
        assert_eq!(one.ino(), two.ino());
        let mount = store.mount(&workspace, &mut merged);
        let root = rustix::fs::fstat(mount.as_fd()).unwrap();
        assert_eq!((root.st_mode & 0o7777, fs::metadata(at("new")).unwrap().mode() & 0o7777), (0o711, 0o1750));
        assert_eq!((fs::read(at("b")).unwrap(), fs::metadata(at("b")).unwrap().mtime()), (b"1\n".to_vec(), 7));
        let mut names: Vec<_> = fs::read_dir(at("old")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.extend(fs::read_dir(workspace.path()).unwrap().map(|entry| entry.unwrap().file_name()));
        names.sort();
        assert_eq!(names, ["b", "file", "new", "old", "sparse"]);
    });
}

/// As an ordinary user, the kernel does not say of a new directory that nothing is below it.
#[test]
fn what_is_deleted_in_a_new_directory_is_not_listed() {
    testing::in_namespaces("merge::tests::what_is_deleted_in_a_new_directory_is_not_listed", |workspace| {
        fs::create_dir_all(workspace.path().join("old")).unwrap();
        let store = Store::of(&workspace);
        let mut stack = Vec::new();
        for script in ["mkdir -p new/deep old/deep; touch {new,old}/deep/{a,b}", "rm {new,old}/deep/a", ":"] {
            drop(store.mount(&workspace, &mut stack));
            let done = Command::new("bash").args(["-ec", script]).current_dir(workspace.path()).status().unwrap();
            assert!(done.success());
            workspace.unmount();
        }
        for of in [0..2, 0..3, 1..3] {
            let mut merged = stack.clone();
            merged.splice(of.clone(), [store.merge(&workspace, &stack[of.clone()]).unwrap()]);
            drop(store.mount(&workspace, &mut merged));
            for directory in ["new/deep", "old/deep"] {
                let found = fs::read_dir(workspace.path().join(directory)).unwrap();
                let names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
                assert_eq!(names, ["b"], "{directory}, {of:?}");
            }
            workspace.unmount();
        }
    });
}

#[test]
fn an_interruption_ends_it() {
    testing::in_namespaces("merge::tests::an_interruption_ends_it", |workspace| {
        let store = Store::of(&workspace);
        let mut stack = Vec::new();
        drop(store.mount(&workspace, &mut stack));
        (0..10).for_each(|file| write(workspace.path().join(file.to_string()), ""));
        workspace.unmount();
        let from = layers::trees(&store.place, &stack).unwrap();
        let to = layers::tree(&store.place, store.layers.begin().unwrap()).unwrap();
        let left = std::cell::Cell::new(4);
        let interrupt = || match left.replace(left.get() - 1) {
            0 => Err(Errno::CANCELED),
            _ => Ok(()),
        };
        let merged = merge(&from, &to, workspace.mounter.marks(), &interrupt);
        assert_eq!(merged, Err(Errno::CANCELED));
        store.layers.keep_only([&stack]).unwrap();
        store.layers.settle();
        assert_eq!(fs::read_dir(workspace.directory.path().join("place")).unwrap().count(), 1);
    });
}
