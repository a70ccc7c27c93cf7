//! Moves groups of changed lines to where a reader expects them, as git does before it merges.
//!
//! A group can move by a line if the line that it loses at one end equals the one that it gets at the other. Groups that meet
//! become one. A group moves to where the other file has changes, too, and otherwise to its last place.

/// Changed lines without others between them; none between two lines that stay. The group of the same number in the other
/// file is at the same place.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    end: usize,
}

/// A file with its groups.
struct Groups<'a> {
    lines: &'a [u32],
    changed: &'a mut [bool],
    at: Group,
}

/// Moves the groups of a file; `other` are those of the other file.
pub fn compact(lines: &[u32], changed: &mut [bool], other: &[bool]) {
    let mut own = Groups { lines, changed, at: first(other) };
    own.at = first(own.changed);
    let mut place = first(other);
    loop {
        if own.at.start < own.at.end {
            own.place(other, &mut place);
        }
        if !next(own.changed, &mut own.at) || !next(other, &mut place) {
            break;
        }
    }
}

impl Groups<'_> {
    /// Moves the present group. `place` is that of the other file.
    fn place(&mut self, other: &[bool], place: &mut Group) {
        let (mut first_end, mut meets_other);
        loop {
            let length = self.at.end - self.at.start;
            while self.move_up() {
                previous(other, place);
            }
            first_end = self.at.end;
            meets_other = place.start < place.end;
            while self.move_down() {
                next(other, place);
                meets_other |= place.start < place.end;
            }
            if self.at.end - self.at.start == length {
                break;
            }
        }
        if self.at.end == first_end || !meets_other {
            return;
        }
        while place.start == place.end && self.move_up() {
            previous(other, place);
        }
    }

    fn move_up(&mut self) -> bool {
        let Group { start, end } = self.at;
        if start == 0 || self.lines[start - 1] != self.lines[end - 1] {
            return false;
        }
        self.changed[start - 1] = true;
        self.changed[end - 1] = false;
        self.at = Group { start: start_of(self.changed, start - 1), end: end - 1 };
        true
    }

    fn move_down(&mut self) -> bool {
        let Group { start, end } = self.at;
        if end == self.lines.len() || self.lines[start] != self.lines[end] {
            return false;
        }
        self.changed[start] = false;
        self.changed[end] = true;
        self.at = Group { start: start + 1, end: end_of(self.changed, end + 1) };
        true
    }
}

fn first(changed: &[bool]) -> Group {
    Group { start: 0, end: end_of(changed, 0) }
}

/// Goes to the group after the next line that stays. False after the last one.
fn next(changed: &[bool], group: &mut Group) -> bool {
    if group.end == changed.len() {
        return false;
    }
    *group = Group { start: group.end + 1, end: end_of(changed, group.end + 1) };
    true
}

/// Goes to the group before the last line that stays.
fn previous(changed: &[bool], group: &mut Group) {
    if let Some(end) = group.start.checked_sub(1) {
        *group = Group { start: start_of(changed, end), end };
    }
}

fn end_of(changed: &[bool], from: usize) -> usize {
    from + changed[from..].iter().take_while(|changed| **changed).count()
}

fn start_of(changed: &[bool], from: usize) -> usize {
    from - changed[..from].iter().rev().take_while(|changed| **changed).count()
}
