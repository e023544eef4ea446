"""What a simulated fleet's truth file says, in the terms of an answer."""

LEVELS = ("deployed", "schedulable", "on_busy_hosts", "allocated", "busy", "sm_active",
          "tensor_active", "full_clock")


def levels_of(clusters):
    """GPU-seconds of each level of the Sankey, as they were: boards where GPUs are partitioned."""
    levels = dict.fromkeys(LEVELS, 0.0)
    for c in clusters:
        unit = 1e6 * (c["sms_per_gpu"] if c["mig"] else 1)
        parts = [c["work"], c["draining"]["work"]]
        levels["deployed"] += int(c["deployed_us"]) / unit
        levels["schedulable"] += int(c["schedulable_us"]) / unit
        levels["on_busy_hosts"] += (int(c["provisioned_on_busy_us"]) +
                                    int(c["draining"]["provisioned_us"])) / unit
        for name, key in (("allocated", "allocated_us"), ("busy", "gpu_busy_us"),
                          ("sm_active", "sm_active_us"), ("tensor_active", "tensor_active_us")):
            levels[name] += sum(int(p[key]) for p in parts) / unit
        levels["full_clock"] += sum(
            int(p["allocated_us"]) / unit * int(p["tensor_cycles"]) / int(p["peak_cycles"])
            for p in parts if int(p["peak_cycles"]))
    return levels
