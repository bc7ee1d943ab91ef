# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a program faster by a profile of its own runs, and says by the clock what that gave.

    from mlbridge.specializing.search import specialize
    from mlbridge.specializing.specialization import Settings

    settings = Settings(tree=Path("."), build="make -j2", runs=("./bench a", "./bench b"),
                        confirm_runs=("./bench c",))
    found = specialize(settings, Path("app.decisions"), Path("work"))
    print(found.confirmed[found.chosen].time, found.chosen)

`mlbridge flags --decisions app.decisions` then says how every later build compiles.
"""
