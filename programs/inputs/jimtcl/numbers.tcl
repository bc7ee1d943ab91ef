# Primes, a recursive function, and a table of square roots by Newton's method.
proc primes {limit} {
    set found {}
    for {set n 2} {$n < $limit} {incr n} {
        set prime 1
        foreach p $found {
            if {$p * $p > $n} break
            if {$n % $p == 0} {
                set prime 0
                break
            }
        }
        if {$prime} {
            lappend found $n
        }
    }
    return $found
}
proc fibonacci {n} {
    expr {$n < 2 ? $n : [fibonacci [expr {$n - 1}]] + [fibonacci [expr {$n - 2}]]}
}
proc root {x} {
    set r $x
    for {set i 0} {$i < 12} {incr i} {
        set r [expr {($r + $x / $r) / 2.0}]
    }
    return $r
}
puts [lindex [primes 12000] end]
puts [fibonacci 18]
set sum 0.0
for {set x 1} {$x < 1200} {incr x} {
    set sum [expr {$sum + [root [expr {double($x)}]]}]
}
puts [format %.6f $sum]
