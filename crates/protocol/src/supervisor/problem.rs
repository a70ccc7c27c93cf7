//! Why a program could not be started, or not with its limits.

use nacre_containment::limits::EnableError;
use serde::{Deserialize, Serialize};
use std::io;

/// Which step of starting a program failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartStep {
    /// Pipes, fork, descriptors.
    Prepare,
    /// The control group.
    Group,
    /// A resource limit or the limits of the control group.
    Limits,
    /// The change of user.
    User,
    /// The working directory.
    Cwd,
    /// Confining the program.
    Isolation,
    /// The program itself.
    Exec,
}

/// Why limits could not be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum LimitProblem {
    /// The process shares its control group.
    #[error("it has no control group of its own")]
    NoGroup,
    /// A controller is missing or cannot be enabled.
    #[error(transparent)]
    Controller(#[from] EnableError),
    /// The kernel refused to limit the control group.
    #[error("its control group does not take them: {}", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// The system's reason.
        errno: i32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message;

    #[test]
    fn a_limit_problem_keeps_its_cause_and_sentence() {
        let (controller, parent) = (String::from("memory"), "/g".into());
        let busy = EnableError::Refused { controller, parent, errno: libc::EBUSY };
        let sentence = "the controller 'memory' cannot be handed down from /g: Device or resource busy (os error 16) (the \
                        group has processes of its own)";
        let refused = LimitProblem::Refused { errno: libc::EINVAL };
        for (problem, sentence) in [
            (LimitProblem::NoGroup, "it has no control group of its own"),
            (LimitProblem::Controller(busy), sentence),
            (refused, "its control group does not take them: Invalid argument (os error 22)"),
        ] {
            assert_eq!(problem.to_string(), sentence);
            let bytes = message::encode(&problem).unwrap();
            assert_eq!(message::decode::<LimitProblem>(&bytes).unwrap(), problem);
        }
    }
}
