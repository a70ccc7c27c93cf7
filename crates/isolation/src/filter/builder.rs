//! The instructions of a filter.

/// A filter in the form that the kernel takes.
pub type Program = Vec<libc::sock_filter>;

/// Offset of the call's number in `struct seccomp_data`.
pub const NUMBER: u32 = 0;
/// Offset of the architecture.
pub const ARCH: u32 = 4;
/// Offset of the low half of an argument.
pub const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Builds a filter. Each rule is a block that either returns or falls through with anything in the accumulator.
#[derive(Default)]
pub struct Builder(pub Program);

impl Builder {
    /// Appends an instruction.
    pub fn op(&mut self, code: u32, k: u32) {
        self.jump(code, k, 0, 0);
    }

    /// Appends an instruction with distances to jump if true and if false.
    pub fn jump(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        self.0.push(libc::sock_filter { code: code as u16, jt, jf, k });
    }

    /// Loads a part of the call's data.
    pub fn load(&mut self, offset: u32) {
        self.op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    }

    /// Returns an answer.
    pub fn give(&mut self, answer: u32) {
        self.op(libc::BPF_RET | libc::BPF_K, answer);
    }

    /// Runs `block` for one system call. `block` ends with [`Builder::give`] or falls through.
    pub fn call(&mut self, number: libc::c_long, block: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        block(&mut inner);
        self.load(NUMBER);
        self.jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number as u32, 0, inner.0.len() as u8);
        self.0.extend(inner.0);
    }

    /// Returns `answer` if any of these bits is set in an argument.
    pub fn any_bit(&mut self, index: u32, bits: u32, answer: u32) {
        self.load(argument(index));
        self.jump(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, bits, 0, 1);
        self.give(answer);
    }

    /// Returns `answer` if an argument is not 0: an `int`, of which the kernel reads the low half only.
    pub fn unless_zero(&mut self, index: u32, answer: u32) {
        self.load(argument(index));
        self.jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, 0);
        self.give(answer);
    }

    /// Returns `answer` if an argument has this value.
    pub fn equal(&mut self, index: u32, value: u32, answer: u32) {
        self.load(argument(index));
        self.jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 0, 1);
        self.give(answer);
    }
}

/// The answer that makes a call fail.
pub fn refuse(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | (errno as u32 & libc::SECCOMP_RET_DATA)
}
