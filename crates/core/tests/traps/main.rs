//! The traps of copying a Job's status from a worker, each with a test of its name. Most tests also show that a plain
//! copy would be refused, and on which field; every write goes through a model of the manager's API server, and nothing
//! may be left to write after it. Random histories of the same are in `histories`.
//!
//! | traps | where |
//! | --- | --- |
//! | t01 t02 t03 t07 t09 t10 t11 t12 t13 t19 t20 t21 t34 t35 t42 t46 t47 | `end`: the end of a Job |
//! | t04 t05 t06 t08 t22 t23 t24 t25 t26 t28 | `counts`: counters and index lists |
//! | t14 t15 t16 t17 t18 t27 t45 | `start`: suspension and `startTime` |
//! | t29 t30 t31 t32 t33 | `writes`: the body of a status write |
//! | t36 t37 t38 t39 t40 t41 t43 t44 | `mirror`: the copy that goes to the worker, and who owns what |
//!
//! Of t42 only what the projection can do is here: that a worker dropped a field of the spec shows in its answer to the
//! create, which is where such a worker has to be refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod counts;
mod end;
mod given;
mod mirror;
mod start;
#[path = "../support/mod.rs"]
mod support;
mod writes;
